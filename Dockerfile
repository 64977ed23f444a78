# The program in an image of its own, run by an account without rights:
#
#   docker build --tag shardc .
#   docker run --rm --volume "$PWD:/work:ro" shardc check
FROM debian:bookworm-slim@sha256:96e378d7e6531ac9a15ad505478fcc2e69f371b10f5cdf87857c4b8188404716 AS build
WORKDIR /source
COPY . .
RUN tests/bootstrap packages \
  && meson setup build --buildtype=release -Dtests=false \
    -Dcommon_headers=project -Dunits=folders \
  && ninja -C build src/cli/shardc packaging/THIRD-PARTY-NOTICES \
  && packaging/image/rootfs build/src/cli/shardc build/packaging /rootfs

FROM scratch
COPY --from=build /rootfs /
USER 65532:65532
WORKDIR /work
ENTRYPOINT ["/usr/bin/shardc"]
CMD ["--help"]
