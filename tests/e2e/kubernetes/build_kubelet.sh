#!/usr/bin/env bash
# Prints the path of a kubelet. The first run builds it from the distribution's source package `kubernetes` (about four
# minutes on two cores, 1.5 GiB of disk meanwhile) and keeps it in ${XDG_CACHE_HOME:-~/.cache}/gpuman/e2e. --if-built:
# prints nothing if it is not built. apt fetches the source and checks its signature; the machine's own list of sources
# does not change.
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpuman/e2e
go=/usr/lib/go-1.19/bin/go  # of kubelet's time: later versions cannot build it this way
if [ -x "$cache/kubelet" ] || [ "${1:-}" = --if-built ]; then
  [ ! -x "$cache/kubelet" ] || printf '%s\n' "$cache/kubelet"
  exit 0
fi

mkdir -p "$cache"
work=$(mktemp -d "$cache/build-XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
cd "$work"
exec 3>&1 >&2

echo "building kubelet from Debian's source package, once"
mkdir -p lists/partial archives/partial gopath/src/k8s.io
# Sources come from the same places as packages. Options in brackets name the expected signer.
awk '/^#/ { next } $1 == "deb" { $1 = "deb-src"; print }' /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null \
  >sources.list || true
mkdir sources.d
for file in /etc/apt/sources.list.d/*.sources; do
  [ ! -e "$file" ] || sed -E 's/^Types:.*/Types: deb-src/' "$file" >"sources.d/$(basename "$file")"
done
apt=(apt-get -q -o "Dir::Etc::sourcelist=$work/sources.list" -o "Dir::Etc::sourceparts=$work/sources.d"
  -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work" -o APT::Sandbox::User=root)
"${apt[@]}" update
"${apt[@]}" source --only-source kubernetes

ln -s "$(echo "$work"/kubernetes-*/)" gopath/src/k8s.io/kubernetes
cd gopath/src/k8s.io/kubernetes
GO111MODULE=off GOPATH=$work/gopath GOCACHE=$work/gocache GOTMPDIR=$work GOFLAGS="-p=$(nproc)" \
  nice "$go" build -o "$work/kubelet" -ldflags '-s -w' k8s.io/kubernetes/cmd/kubelet
mv "$work/kubelet" "$cache/kubelet"
printf '%s\n' "$cache/kubelet" >&3
