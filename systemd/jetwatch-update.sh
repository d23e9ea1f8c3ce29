#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Updates of the package: jetwatch-update check, install, rollback, status. While an update is under way, the program that began it
# ends it, not the one that was just installed.
folder=/var/lib/jetwatch-setup/update
program=/usr/bin/jetwatch
if [ -e "$folder/journal.json" ] && [ -x "$folder/updater" ]; then
    program=$folder/updater
fi
exec "$program" update "$@"
