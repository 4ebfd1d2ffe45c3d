# The page for a class or a school, on CPUs. See docs/deployment.md, "Container".
#
#     docker build -t vitdemo . && docker run -p 7860:7860 -v vitdemo:/srv/vitdemo vitdemo
FROM python:3.12-slim

# The dependencies are a layer of their own, so that a change of the code does not install them again.
WORKDIR /build
COPY requirements.txt ./
RUN pip install --no-cache-dir uv && \
    uv pip install --system --no-cache --torch-backend=cpu -r requirements.txt
COPY . .
RUN uv pip install --system --no-cache --no-deps .

# The volume contains runs/, data/ and downloaded models.
RUN useradd --uid 1000 --create-home vitdemo && \
    install --directory --owner=vitdemo --group=vitdemo /srv/vitdemo
ENV HF_HOME=/srv/vitdemo/models
USER vitdemo
WORKDIR /srv/vitdemo
VOLUME ["/srv/vitdemo"]

EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=10s --start-period=120s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:7860/', timeout=9)"]
ENTRYPOINT ["vitdemo", "--host", "0.0.0.0", "--port", "7860"]
CMD ["--download"]
