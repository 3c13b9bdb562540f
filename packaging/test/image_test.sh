#!/usr/bin/env bash
# Builds the image of packaging/kubernetes/Containerfile and tries what is in it, without a registry: its base is a minimal
# system made here. Images and containers are in a directory of their own, none of the machine's are touched. Not part of
# ./dev test. Needs root, buildah, debootstrap, and a mirror.
#
# Usage: packaging/test/image_test.sh      MIRROR=URL; TREE=DIRECTORY of a system made before (not changed); JOBS=NUMBER of
# compilers at once
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

[ "$(id -u)" = 0 ] || { echo "image_test.sh: needs root" >&2; exit 1; }
for program in buildah debootstrap; do
  command -v "$program" >/dev/null || { echo "image_test.sh: apt-get install $program" >&2; exit 1; }
done
work=$(mktemp -d /var/tmp/gpuman-image-XXXXXX)
images() { buildah --root "$work/storage" --runroot "$work/run" "$@"; }
clean_up() {
  images rm --all >/dev/null 2>&1 || true
  umount "$work/storage/overlay" 2>/dev/null || true
  rm -rf --one-file-system "$work"
}
trap clean_up EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

echo "== base"
tree=${TREE:-$work/tree}
[ -x "$tree/usr/bin/apt-get" ] ||
  debootstrap --variant=minbase bookworm "$tree" "${MIRROR:-http://deb.debian.org/debian}" >"$work/log" 2>&1 ||
  { tail "$work/log" >&2; exit 1; }
base=$(images from scratch)
tar -C "$tree" --exclude='./dev/*' --exclude='./var/cache/apt/*' -c . >"$work/base.tar"
images add -q "$base" "$work/base.tar" / >/dev/null
# The images of Debian keep no packages that they have installed either.
printf '%s\n' 'Dir::Cache::pkgcache ""; Dir::Cache::srcpkgcache ""; Binary::apt::APT::Keep-Downloaded-Packages "false";' >"$work/clean"
images copy -q "$base" "$work/clean" /etc/apt/apt.conf.d/docker-clean >/dev/null
images commit -q "$base" docker.io/library/debian:12 >/dev/null
images tag docker.io/library/debian:12 docker.io/library/debian:12-slim
rm "$work/base.tar"

echo "== build"
jobs=${JOBS:-$(nproc)}
images bud --pull=never --network host --build-arg CMAKE_BUILD_PARALLEL_LEVEL="$jobs" \
  -f packaging/kubernetes/Containerfile -t plugin . >"$work/log" 2>&1 || { tail -n 100 "$work/log" >&2; fail "the build"; }

echo "== use"
container=$(images from --pull=never -v "$PWD/packaging/kubernetes:/etc/gpuman:ro" plugin)
inside() { images run --cap-drop=all "$container" "$@"; }
version=$(sed -nE 's/^project\(gpuman VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
[ "$(inside gpuman-kube-plugin --version)" = "gpuman-kube-plugin $version" ] || fail "--version is not $version"
inside ldd /usr/bin/gpuman-kube-plugin >"$work/libraries"
! grep 'not found' "$work/libraries" || fail "libraries are missing"
inside gpuman-kube-plugin --check-config || fail "the configuration of the manifests is not accepted"
[ "$(images inspect --type image --format '{{index .OCIv1.Config.Entrypoint 0}}' plugin)" = /usr/bin/gpuman-kube-plugin ] ||
  fail "the plugin is not what it starts"
size() { images images --format "{{.Size}}" "$1" | head -n 1; }
echo "the plugin works; $(size plugin), of which its base is $(size docker.io/library/debian:12-slim)"
