# Debian's Redis; docker-compose.yml has its command line.
ARG BASE
FROM ${BASE}
RUN apt-get -qq update && apt-get -qq -y --no-install-recommends install redis-server && rm -rf /var/lib/apt/lists/*
USER redis
WORKDIR /var/lib/redis
EXPOSE 6379
CMD ["redis-server", "--protected-mode", "no"]
