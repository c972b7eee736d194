# syntax=docker/dockerfile:1
# docker build --build-arg VERSION=$(git describe --tags --always) --build-arg COMMIT=$(git rev-parse HEAD) -t kubejournal .
#
# One static program and nothing else: no shell, no libraries, no certificates; time zones are in the program. What it needs at run time (config, token, the
# cluster's certificate authority) is mounted. The same sources, Go and arguments give the same program, byte for byte.
FROM --platform=$BUILDPLATFORM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY Makefile ./
COPY cmd cmd
COPY internal internal
ARG VERSION COMMIT TARGETOS TARGETARCH
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    GOOS=$TARGETOS GOARCH=$TARGETARCH make build VERSION="$VERSION" COMMIT="$COMMIT"

FROM scratch
ARG VERSION COMMIT
LABEL org.opencontainers.image.title="kubejournal" \
      org.opencontainers.image.description="A journal of what changes in a Kubernetes cluster, one JSON line for each change" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$COMMIT"
COPY --from=build /src/bin/kubejournal /kubejournal
# A number, so that the kubelet can tell that it is not root.
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["/kubejournal"]
CMD ["run"]
