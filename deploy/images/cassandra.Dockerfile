# One Cassandra node from its jars, as deploy/servers runs it; it accepts the environment of the official image.
ARG BASE
FROM ${BASE}
RUN apt-get -qq update && apt-get -qq -y --no-install-recommends install openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 999 --home-dir /var/lib/cassandra --no-create-home cassandra \
 && install -d -o cassandra -g cassandra /var/lib/cassandra /opt/cassandra
COPY jars /opt/cassandra/jars
COPY fetched.xml /opt/cassandra/fetched.xml
COPY deploy /opt/deploy
COPY logback.xml /opt/deploy/servers/logback.xml
USER cassandra
WORKDIR /opt
ENV PYTHONDONTWRITEBYTECODE=1
VOLUME /var/lib/cassandra
EXPOSE 9042
CMD ["python3", "-m", "deploy.images.node"]
