#!/usr/bin/env bash
# The .deb packages of this checkout, their debug symbols and an SBOM: build/package/packages.
. tools/dev/common.sh

need build package
# Compiled as the preset release is, so that the compiler's cache has it after ./dev build.
named=()
for value in MAINTAINER HOMEPAGE; do
  variable=GPUMAN_$value
  if [ -n "${!variable:-}" ]; then named+=("-D$variable=${!variable}"); else named+=(-U "$variable"); fi
done
quiet configure-package cmake --preset release -B build/package -DCMAKE_INSTALL_PREFIX=/usr -DGPUMAN_TESTS=OFF -DGPUMAN_BENCHMARKS=OFF \
  "${named[@]}"
say "building the packages, several minutes where nothing is built yet; its output: build/log/build-package.log"
build_folder package
rm -rf build/package/packages
(cd build/package && umask 022 && cpack -G DEB >../log/cpack.log 2>&1) || {
  tail -n 50 build/log/cpack.log >&2
  die "cpack failed"
}
packages=(build/package/packages/*.deb)

# true_size PACKAGE: CPack counts a link as what it leads to, and gpuman has ten; the field says what the files take.
true_size() {
  local deb size work
  deb=$(readlink -f "$1")
  size=$(dpkg-deb --fsys-tarfile "$deb" | tar -tv | awk '{ size += /^-/ ? int(($3 + 1023) / 1024) : 1 } END { print size }')
  work=$(mktemp -d)
  dpkg-deb -e "$deb" "$work/control"
  sed -i "s/^Installed-Size: .*/Installed-Size: $size/" "$work/control/control"
  tar -C "$work/control" --owner=0 --group=0 --numeric-owner --sort=name -czf "$work/control.tar.gz" .
  (cd "$work" && ar r "$deb" control.tar.gz 2>/dev/null)
  rm -r "$work"
}
for package in "${packages[@]}"; do true_size "$package"; done

say "== lintian"
lintian --fail-on error --tag-display-limit 0 --suppress-tags-from-file packaging/deb/lintian-suppressed "${packages[@]}"
version=$(dpkg-deb -f "${packages[0]}" Version)
python3 -B tools/sbom.py build/package "build/package/packages/gpuman_$version.cdx.json" "${packages[@]}"
say "== what they say of themselves, and the debug symbols beside them"
python3 -B packaging/test/packages_test.py
for package in "${packages[@]}"; do
  say "$package ($(du -h "$package" | cut -f1), $(($(dpkg-deb -f "$package" Installed-Size) / 1024)) MiB installed)"
done
say "beside them: what debuggers need (*-dbgsym_*.ddeb, by dpkg -i), what the programs are made of (*.cdx.json, CycloneDX)"
if [ -z "${GPUMAN_MAINTAINER:-}" ] || [ -z "${GPUMAN_HOMEPAGE:-}" ]; then
  say "maintainer and homepage are placeholders where not given: GPUMAN_MAINTAINER='Name <address>' GPUMAN_HOMEPAGE=URL ./dev package"
fi
