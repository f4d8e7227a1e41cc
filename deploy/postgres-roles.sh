#!/bin/sh
# Runs once, in a new database container: the database, who owns its tables, and who works in it.
set -eu
psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres \
  --set owner="$OWNER_PASSWORD" --set app="$APP_PASSWORD" <<'SQL'
CREATE ROLE indai_owner LOGIN NOSUPERUSER PASSWORD :'owner';
CREATE ROLE indai_app NOLOGIN NOSUPERUSER NOBYPASSRLS;
CREATE ROLE indai LOGIN NOSUPERUSER NOBYPASSRLS PASSWORD :'app';
GRANT indai_app TO indai;
CREATE DATABASE indai OWNER indai_owner;
\connect indai
CREATE EXTENSION vector;
SQL
