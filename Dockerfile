# The command line with everything it needs to read tables and write reports:
#
#     docker build -t easyfirst .
#     docker run --rm -v "$PWD:/data" --user "$(id -u):$(id -g)" easyfirst fit prices.csv --target price
#
# Other extras: docker build --build-arg EXTRAS=tool,plot,dask -t easyfirst .

ARG PYTHON_VERSION=3.13
FROM python:${PYTHON_VERSION}-slim AS build
ARG EXTRAS=tool,plot
WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN python -m venv /opt/easyfirst \
    && /opt/easyfirst/bin/pip install --no-cache-dir --constraint constraints.txt ".[${EXTRAS}]"

FROM python:${PYTHON_VERSION}-slim
COPY --from=build /opt/easyfirst /opt/easyfirst
# matplotlib keeps a cache, and the user that --user names has no home directory.
ENV PATH=/opt/easyfirst/bin:$PATH MPLCONFIGDIR=/tmp/matplotlib PYTHONUNBUFFERED=1
RUN useradd --create-home analyst
USER analyst
WORKDIR /data
ENTRYPOINT ["easyfirst"]
CMD ["--help"]
