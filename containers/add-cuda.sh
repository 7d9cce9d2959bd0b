#!/usr/bin/env bash
# Adds to a folder that is the root of a container what CUDA needs. That is the libraries of cuda-libraries.txt, put
# where the dynamic linker looks, what they need, and their licences. Prints the size of each.
#
#   containers/add-cuda.sh FOLDER LIBRARIES     LIBRARIES: a folder as `scripts/cuda-toolkit.sh --runtime` makes it
set -euo pipefail
if [ $# -ne 2 ]; then
  sed -n '2,5s/^# \{0,1\}//p' "$0"
  exit 2
fi
root=$1 from=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
to=/usr/lib/x86_64-linux-gnu
sum=0
added=()
while read -r library package; do
  if [ ! -f "$from/lib/$library" ] || [ ! -d "$from/licences/$package" ]; then
    echo "add-cuda.sh: $from has no lib/$library or no licences/$package; scripts/cuda-toolkit.sh --runtime installs both" >&2
    exit 1
  fi
  install -D -m 0755 "$from/lib/$library" "$root$to/$library"
  mkdir -p "$root/usr/share/doc/$package"
  install -m 0644 "$from/licences/$package"/* "$root/usr/share/doc/$package/"
  added+=("$root$to/$library:$to/$library")
  bytes=$(stat -c %s "$root$to/$library")
  sum=$((sum + bytes))
  printf '%-40s %6s MiB\n' "$library" $(((bytes + (1 << 19)) >> 20))
done < <(grep -v '^#' "$here/cuda-libraries.txt")
printf '%-40s %6s MiB\n' "libraries of NVIDIA's" $(((sum + (1 << 19)) >> 20))
# Each finds in the image what it needs of the others, or this fails.
LD_LIBRARY_PATH=$root$to "$here/collect.sh" "$root" "${added[@]}"
