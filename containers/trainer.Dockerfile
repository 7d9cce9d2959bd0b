# The trainer's image: lockstep-trainer with the libraries that it needs, and the licence texts that examples/language-model.yaml
# learns. Build it from the root of the repository:
#
#   docker build -f containers/trainer.Dockerfile -t docker.io/lockstep/trainer:dev .
#
# containers/build-images.sh makes the same image from binaries that are there already, without a daemon.
FROM debian:12 AS build
COPY . /src
WORKDIR /src
RUN scripts/setup.sh && scripts/build.sh release build/release "$(nproc)" lockstep-trainer
RUN containers/collect.sh /image build/release/bin/lockstep-trainer:/usr/local/bin/lockstep-trainer && \
    mkdir -p /image/usr/share && cp -a /usr/share/common-licenses /image/usr/share/ && install -d -m 1777 /image/tmp

FROM scratch
COPY --from=build /image /
ENV PATH=/usr/local/bin:/usr/bin:/bin
USER 65532:65532
ENTRYPOINT ["lockstep-trainer"]
