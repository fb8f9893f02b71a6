#!/usr/bin/env bash
# Install and start PostgreSQL, MariaDB and RabbitMQ on a Debian machine, with or without systemd,
# and make the accounts the tests use. What runs already is not restarted; an account that exists is
# not changed. Also install ipmitool and ipmi_sim, an IPMI BMC that tests start themselves. Safe to
# run again.
set -euo pipefail

account=ironic_lite
password=ironic_lite
patience=90 # seconds a service may take until it answers

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -- "$@"; fi
}

as_postgres() { (cd / && as_root runuser -u postgres -- "$@"); }

say() { printf '%-10s %s\n' "$1" "$2"; }

listens() { (exec 3<> "/dev/tcp/127.0.0.1/$1") 2> /dev/null; }

install_missing() { # install_missing PROGRAM=PACKAGE ...
    local pair missing=()
    for pair in "$@"; do
        PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%=*}" > /dev/null || missing+=("${pair#*=}")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    echo "installing ${missing[*]}"
    as_root apt-get update -q
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        "${missing[@]}"
}

start() { # start SERVICE PORT
    if listens "$2"; then
        say "$1" "runs already"
        return
    fi
    if [ -d /run/systemd/system ]; then
        as_root systemctl start "$1"
    else
        as_root service "$1" start > /dev/null
    fi
    local left
    for ((left = patience; left > 0; left--)); do
        if listens "$2"; then
            say "$1" started
            return
        fi
        sleep 1
    done
    echo "$1 does not answer on port $2 after $patience s" >&2
    return 1
}

postgresql_account() {
    as_postgres psql -qAt -v ON_ERROR_STOP=1 <<SQL
SELECT 'CREATE ROLE $account LOGIN CREATEDB PASSWORD ''$password'''
 WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '$account') \gexec
SELECT 'CREATE DATABASE $account OWNER $account'
 WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = '$account') \gexec
SQL
}

mariadb_account() { # the account may make databases whose names start with its own
    as_root mariadb <<SQL
CREATE USER IF NOT EXISTS '$account'@'localhost' IDENTIFIED BY '$password';
CREATE USER IF NOT EXISTS '$account'@'127.0.0.1' IDENTIFIED BY '$password';
GRANT ALL ON \`ironic\\_lite%\`.* TO '$account'@'localhost';
GRANT ALL ON \`ironic\\_lite%\`.* TO '$account'@'127.0.0.1';
CREATE DATABASE IF NOT EXISTS $account CHARACTER SET utf8mb4;
SQL
}

rabbitmq_account() {
    as_root rabbitmqctl -q await_startup --timeout "$patience"
    if ! as_root rabbitmqctl -q list_users --no-table-headers | cut -f1 | grep -qx "$account"; then
        as_root rabbitmqctl -q add_user "$account" "$password"
    fi
    if ! as_root rabbitmqctl -q list_vhosts --no-table-headers | grep -qx "$account"; then
        as_root rabbitmqctl -q add_vhost "$account"
    fi
    as_root rabbitmqctl -q set_permissions -p "$account" "$account" '.*' '.*' '.*'
}

install_missing pg_ctlcluster=postgresql mariadbd=mariadb-server rabbitmqctl=rabbitmq-server \
    ipmitool=ipmitool ipmi_sim=openipmi socat=socat
start postgresql 5432
start mariadb 3306
start rabbitmq-server 5672
postgresql_account
mariadb_account
rabbitmq_account
cat <<EOT
postgresql+psycopg://$account:$password@127.0.0.1/$account
mysql+pymysql://$account:$password@127.0.0.1/$account
rabbit://$account:$password@127.0.0.1:5672/$account
EOT
