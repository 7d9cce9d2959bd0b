#!/usr/bin/env bash
# Makes the CUDA variant of the trainer's image as containers/build-images.sh does, from stand-ins. These are the
# trainer whose kernels run on the host, and the fakes of NVIDIA's libraries under the names of
# containers/cuda-libraries.txt.
#
#   cuda_image.sh BUILD_FOLDER OUT_FOLDER     OUT_FOLDER/trainer-cuda.tar: docker.io/lockstep/trainer:fakes-cuda
set -euo pipefail
if [ $# -ne 2 ]; then
  sed -n '2,5s/^# \{0,1\}//p' "$0"
  exit 2
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
fakes=$(readlink -f "$1")/tests/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/build/bin" "$work/libraries/lib"
cp "$fakes/lockstep-trainer-cuda" "$work/build/bin/lockstep-trainer"

while read -r library package; do
  made=$work/libraries/lib/$library
  case $library in
    # The program is linked with the fake of the runtime; a second copy of it would be another GPU.
    libcudart.*) gcc -shared -o "$made" -xc /dev/null -Wl,--no-as-needed -L"$fakes" -lfakecuda -Wl,-rpath,"$fakes" ;;
    libcublasLt.*) cp "$fakes/libfakecublaslt.so" "$made" ;;
    libcudnn.*) cp "$fakes/libfakecudnn.so" "$made" ;;
    libnccl.*) cp "$fakes/libfakenccl.so" "$made" ;;
    *) gcc -shared -o "$made" -xc /dev/null ;;
  esac
  mkdir -p "$work/libraries/licences/$package"
  echo 'a stand-in' >"$work/libraries/licences/$package/License.txt"
done < <(grep -v '^#' "$root/containers/cuda-libraries.txt")
LOCKSTEP_CUDA_LIBRARIES=$work/libraries "$root/containers/build-images.sh" "$work/build" "$2" fakes trainer-cuda
