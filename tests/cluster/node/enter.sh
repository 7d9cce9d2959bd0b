#!/usr/bin/env bash
# First process of a node, in new network, mount, UTS, IPC and PID namespaces. It gives the node a root folder of its
# own, with nothing of the host in it but programs, devices and cgroups. Continues there with boot.sh.
#
#   enter.sh NODE_FOLDER BIN_FOLDER IMAGES_FOLDER SHARED_FOLDER
set -euo pipefail
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

folder=$1 bin=$2 images=$3 shared=$4
root=$folder/root

# From here on the host sees no mount of this node, and no unmount of the node affects the host. In a chroot into a
# plain folder "/" is no mount point; then only the visible mounts can be made private, which are all that this script
# touches.
if awk '$5 == "/" { found = 1 } END { exit !found }' /proc/self/mountinfo; then
  plain_chroot=false
  mount --make-rprivate /
else
  plain_chroot=true
  while read -r _ _ _ _ where _; do
    mount --make-private "$(printf '%b' "$where")"
  done </proc/self/mountinfo
fi

mount -t tmpfs -o mode=755 lockstep-node "$root"
cd "$root"
mkdir -p proc sys dev run usr etc var tmp old opt root lockstep/bin lockstep/node lockstep/images
chmod 1777 tmp
for name in bin sbin lib lib32 lib64 libx32; do
  if [ -L "/$name" ]; then
    cp -P "/$name" .
  elif [ -d "/$name" ]; then
    mkdir "$name"
    mount --rbind "/$name" "$name"
  fi
done
mount --rbind /usr usr
if [ -d /opt/cni ]; then
  mkdir -p opt/cni
  mount --bind /opt/cni opt/cni
fi
mount --rbind /dev dev
mount -t proc proc proc
# A sysfs mounted here shows this node's own network devices; the cgroup trees are the host's.
mount -t sysfs sysfs sys
mount --rbind /sys/fs/cgroup sys/fs/cgroup
mount -t tmpfs -o mode=755 run run
mount --bind "$folder/var" var
mkdir -p var/lib/{kubelet,containerd,lockstep-images,lockstep-shared} var/log/{pods,containers} var/tmp
ln -sfn /run var/run
mount --bind "$shared" var/lib/lockstep-shared
mount --bind "$bin" lockstep/bin
mount --bind "$folder/config" lockstep/node
mount --bind "$images" lockstep/images
for name in alternatives group ld.so.cache ld.so.conf ld.so.conf.d nsswitch.conf passwd protocols services; do
  if [ -e "/etc/$name" ]; then cp -a "/etc/$name" etc/; fi
done
cp lockstep/node/hostname lockstep/node/hosts lockstep/node/resolv.conf lockstep/node/machine-id etc/

# pivot_root leaves no way back to the host's files; it is impossible in a plain chroot, where chroot alone has to do.
if [ "$plain_chroot" = false ]; then
  pivot_root . old
  umount --lazy /old
fi
exec chroot . /bin/bash /lockstep/node/boot.sh
