# The trainer's image: lockstep-trainer with the libraries that it needs, and the licence texts that examples/language-model.yaml
# learns. Build it from the root of the repository:
#
#   docker build -f containers/trainer.Dockerfile -t docker.io/lockstep/trainer:dev .
#
# The build stage is the same text in both Dockerfiles, so that the second image reuses the layers of the first. The compiler's cache
# outlives the layers: a build after a change compiles what changed.
#
# containers/build-images.sh makes the same image from binaries that are there already, without a daemon.
FROM debian:12 AS build
COPY scripts/setup.sh /setup.sh
RUN /setup.sh build
COPY . /src
WORKDIR /src
RUN --mount=type=cache,id=lockstep-ccache,target=/ccache \
    LANG=C.UTF-8 CCACHE_DIR=/ccache scripts/build.sh release build/release "$(nproc)" lockstep-operator lockstep-agent lockstep-trainer && \
    containers/collect.sh /operator build/release/bin/lockstep-operator:/lockstep-operator build/release/bin/lockstep-agent:/lockstep-agent && \
    containers/collect.sh /trainer build/release/bin/lockstep-trainer:/usr/local/bin/lockstep-trainer && \
    mkdir -p /trainer/usr/share && cp -a /usr/share/common-licenses /trainer/usr/share/ && install -d -m 1777 /trainer/tmp && \
    rm -rf build

FROM scratch
COPY --from=build /trainer /
ENV PATH=/usr/local/bin:/usr/bin:/bin
USER 65532:65532
ENTRYPOINT ["lockstep-trainer"]
