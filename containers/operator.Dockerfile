# The operator's image: lockstep-operator with the libraries that it needs, and the static lockstep-agent that is copied into every
# training pod. Nothing else: no shell, no package manager. Build it from the root of the repository:
#
#   docker build -f containers/operator.Dockerfile -t docker.io/lockstep/operator:dev .
#
# containers/build-images.sh makes the same image from binaries that are there already, without a daemon.
FROM debian:12 AS build
COPY . /src
WORKDIR /src
RUN scripts/setup.sh && scripts/build.sh release build/release "$(nproc)" lockstep-operator lockstep-agent
RUN containers/collect.sh /image build/release/bin/lockstep-operator:/lockstep-operator build/release/bin/lockstep-agent:/lockstep-agent

FROM scratch
COPY --from=build /image /
USER 65532:65532
ENTRYPOINT ["/lockstep-operator"]
