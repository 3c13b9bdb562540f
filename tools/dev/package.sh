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
say "building the packages; to watch: tail -f build/log/build-package.log"
quiet build-package cmake --build build/package --parallel "$(build_jobs)"
rm -rf build/package/packages
(cd build/package && umask 022 && cpack -G DEB >../log/cpack.log 2>&1) || {
  tail -n 50 build/log/cpack.log >&2
  die "cpack failed"
}
packages=(build/package/packages/*.deb)
say "== lintian"
lintian --fail-on error --tag-display-limit 0 --suppress-tags-from-file packaging/deb/lintian-suppressed "${packages[@]}"
version=$(dpkg-deb -f "${packages[0]}" Version)
python3 -B tools/sbom.py build/package "build/package/packages/gpuman_$version.cdx.json" "${packages[@]}"
for package in "${packages[@]}"; do
  say "$package ($(du -h "$package" | cut -f1), $(($(dpkg-deb -f "$package" Installed-Size) / 1024)) MiB installed)"
done
say "beside them: what debuggers need (*-dbgsym_*.ddeb, by dpkg -i), what the programs are made of (*.cdx.json, CycloneDX)"
if [ -z "${GPUMAN_MAINTAINER:-}" ] || [ -z "${GPUMAN_HOMEPAGE:-}" ]; then
  say "maintainer and homepage are placeholders where not given: GPUMAN_MAINTAINER='Name <address>' GPUMAN_HOMEPAGE=URL ./dev package"
fi
