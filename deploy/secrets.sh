#!/bin/sh
# Makes the secrets of docker-compose.yml, once: deploy/secrets/, readable by you alone. It never replaces any.
set -eu
umask 077
cd "$(dirname "$0")"
mkdir -p secrets

base64_of_32_bytes() { head -c 32 /dev/urandom | base64 | tr -d '\n'; }
word() { base64_of_32_bytes | tr '+/' '-_' | tr -d '='; }

for cell in registry north south; do
  if [ -e "secrets/$cell.env" ]; then
    echo "kept secrets/$cell.env"
    continue
  fi
  owner=$(word) app=$(word)
  cat > "secrets/$cell-db.env" <<END
POSTGRES_PASSWORD=$(word)
OWNER_PASSWORD=$owner
APP_PASSWORD=$app
END
  cat > "secrets/$cell.env.new" <<END
INDAI_DATABASE_URL=postgresql://indai:$app@$cell-db/indai
INDAI_DATABASE_ADMIN_URL=postgresql://indai_owner:$owner@$cell-db/indai
INDAI_CELL_TOKEN=indai_$(word)
INDAI_NODE_KEY=$(base64_of_32_bytes)
END
  mv "secrets/$cell.env.new" "secrets/$cell.env"
  echo "made secrets/$cell.env and secrets/$cell-db.env"
done
