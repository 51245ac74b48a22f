#!/usr/bin/env bash
# download_wheels.sh PIP_PYTHON TARGET_PYTHON FOLDER MARK TORCH_INDEX REQUIREMENT...
# Downloads wheels for TARGET_PYTHON with the pip of PIP_PYTHON; MARK is made when all are there.
set -euo pipefail
pip_python=$1 target_python=$2 folder=$3 mark=$4 torch_index=$5
shift 5
mkdir -p "$folder"
fetch() { "$pip_python" -m pip --python "$target_python" download -qq --dest "$folder" --find-links "$folder" "$@"; }
# pip's own index may have PyTorch for CUDA only, several gigabytes that no CPU needs.
for requirement in "$@"; do
    case $requirement in
        torch[=\<\>~]*)
            if [ -n "$torch_index" ]; then
                fetch --no-deps --retries 0 --timeout 10 --index-url "$torch_index" "$requirement" ||
                    echo "No CPU-only wheel of $requirement from $torch_index, asking pip's own index."
            fi
            ;;
    esac
done
fetch setuptools "$@"
touch "$mark"
