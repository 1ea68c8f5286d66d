# The server, with PyTorch's CPU build. The model directory is a volume: docs/serving.md says how to use it.
FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml hatch_build.py constraints.txt README.md LICENSE ./
COPY src src
ENV PIP_CONSTRAINT=/source/constraints.txt \
    PIP_BUILD_CONSTRAINT=/source/constraints.txt \
    PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
RUN python -m venv /opt/ookg && /opt/ookg/bin/pip install --no-cache-dir '.[serve,postgres]'

FROM python:3.12-slim
RUN useradd --uid 10001 --create-home ookg && mkdir /data && chown ookg:ookg /data
COPY --from=build /opt/ookg /opt/ookg
# Compiled kernels are kept here, so that a restart does not compile them again.
ENV PATH=/opt/ookg/bin:$PATH NUMBA_CACHE_DIR=/home/ookg/numba PYTHONUNBUFFERED=1
USER ookg
WORKDIR /data
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/v1/ready', timeout=4)"]
ENTRYPOINT ["ookg"]
CMD ["serve", "/data/model", "--host", "0.0.0.0", "--port", "8000"]
