# The trainer's image: lockstep-trainer with the libraries that it needs, and the licence texts that examples/language-model.yaml
# learns. Build it from the root of the repository:
#
#   docker build -f containers/trainer.Dockerfile -t docker.io/lockstep/trainer:dev .
#   docker build -f containers/trainer.Dockerfile --target cuda -t docker.io/lockstep/trainer:dev-cuda .
#
# The second is the CUDA variant, for GPUs: kernels in the program, and NVIDIA's libraries that it loads. It starts
# without a driver and without a GPU as well.
#
# The build stage is the same text in both Dockerfiles, so that the second image reuses the layers of the first. The compiler's cache
# outlives the layers: a build after a change compiles what changed.
#
# containers/build-images.sh makes the same images from binaries that are there already, without a daemon.
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

FROM build AS cuda-build
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv
RUN --mount=type=cache,id=lockstep-ccache,target=/ccache --mount=type=cache,id=lockstep-cuda,target=/cuda/lockstep \
    export LANG=C.UTF-8 CCACHE_DIR=/ccache XDG_CACHE_HOME=/cuda && scripts/cuda-toolkit.sh && \
    scripts/build.sh cuda build/cuda "$(nproc)" lockstep-trainer && \
    install build/cuda/bin/lockstep-trainer /trainer/usr/local/bin/ && rm -rf build && \
    containers/add-cuda.sh /trainer "$(scripts/cuda-toolkit.sh --runtime)"

FROM scratch AS cuda
COPY --from=cuda-build /trainer /
ENV PATH=/usr/local/bin:/usr/bin:/bin
# Where nodes mount a driver that no tool of theirs puts into the image's cache of libraries.
ENV LD_LIBRARY_PATH=/usr/local/nvidia/lib64:/usr/lib64
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 65532:65532
ENTRYPOINT ["lockstep-trainer"]

FROM scratch
COPY --from=build /trainer /
ENV PATH=/usr/local/bin:/usr/bin:/bin
USER 65532:65532
ENTRYPOINT ["lockstep-trainer"]
