# SPDX-License-Identifier: Apache-2.0
# The target's side of `jetwatch profile`: starts nsys, waits, and sends files back. It comes over standard input
# and decides nothing. It reads commands line by line and answers with lines: `NAME VALUE`, or `file NAME BYTES` with that many
# bytes behind it. When the connection is closed, it ends what it started and removes its folder.
#
# For any POSIX shell. What it starts carries a mark in its environment, by which it is found again, however nsys forks.
# Standard input is read by `read` and `head -c`, which take no byte too many.

set -u
umask 077
export LC_ALL=C
exec 3<&0 </dev/null
# Under sudo the new user may have no access to this folder, and nothing could be started from it.
[ -x . ] || cd /

mark=$$-$(date +%s)
folder='' session='' nsys='' watcher='' timer='' last=''

say() { printf '%s\n' "$*"; }

# Answers `error KIND TEXT` and ends.
fail() {
    say "error $*"
    exit 1
}

send() { # NAME FILE
    [ -f "$2" ] || { say "missing $1"; return; }
    say "file $1 $(($(wc -c <"$2")))"
    cat "$2"
}

# Numbers of the processes that were started here.
marked() {
    grep -lsF "JETWATCH_PROFILE=$mark" /proc/[0-9]*/environ | sed 's|^/proc/||; s|/environ$||'
}

# Those of them that are not nsys itself: the daemon.
marked_daemons() {
    for id in $(marked); do
        case $(cat "/proc/$id/comm" 2>/dev/null) in
        nsys* | '') ;;
        *) echo "$id" ;;
        esac
    done
}

# Waits until `$1` names no process any more, for about `$2` tenths of a second.
until_gone() {
    turn=0
    while [ -n "$($1)" ]; do
        turn=$((turn + 1))
        [ "$turn" -le "$2" ] || return 1
        sleep 0.1
    done
}

# Neither may outlive this: a watcher that still reads would take the first bytes of the next command, and a timer would end it.
# A subshell that has just begun can miss any signal but KILL.
end_watch() {
    [ -n "$watcher$timer" ] || return 0
    {
        kill -KILL $watcher $timer
        wait $watcher $timer
        kill "$(cat "$folder/sleeping")"
        rm -f "$folder/sleeping"
    } 2>/dev/null
    watcher='' timer=''
}

# Ends this shell when the other end is gone, or after `$1` seconds.
begin_watch() {
    (IFS='' read -r line <&3; kill -HUP $$) >/dev/null 2>&1 &
    watcher=$!
    (
        sleep "$1" &
        echo $! >"$folder/sleeping"
        wait $!
        kill -ALRM $$
    ) >/dev/null 2>&1 3<&- &
    timer=$!
}

# Nothing stays: what was recorded of a service is thrown away and the service runs on; a daemon of ours is asked to end, and
# what is left after that is killed.
clean() {
    trap '' HUP INT TERM ALRM PIPE
    trap - EXIT
    end_watch
    if [ -n "$session" ]; then
        # Older versions cannot cancel what is in a session, only finish it.
        timeout 30 "$nsys" cancel --session="$session" >/dev/null 2>&1 || timeout 60 "$nsys" stop --session="$session" >/dev/null 2>&1
    fi
    daemons=$(marked_daemons)
    if [ -n "$daemons" ]; then
        kill -TERM $daemons 2>/dev/null
        until_gone marked_daemons 50
    fi
    left=$(marked)
    [ -z "$left" ] || kill -KILL $left 2>/dev/null
    [ -z "$folder" ] || rm -rf "$folder"
    [ -z "$last" ] || say "$last"
}
trap clean EXIT
trap 'exit 1' HUP INT TERM PIPE
trap 'last="error late"; exit 1' ALRM

# Where Nsight Systems puts nsys, next to the search path; the last is the newest.
find_nsys() { # PROGRAM
    nsys=$(command -v "$1" 2>/dev/null) && return
    [ "$1" = nsys ] || return
    for nsys in /usr/local/cuda/bin/nsys /opt/nvidia/nsight-systems*/bin/nsys /opt/nvidia/nsight-systems*/*/bin/nsys /opt/nvidia/nsight-systems*/*/target-linux-*/nsys; do
        [ ! -x "$nsys" ] || found=$nsys
    done
    nsys=${found:-}
}

probe() {
    say "architecture $(uname -m)"
    say "paranoid $(cat /proc/sys/kernel/perf_event_paranoid 2>/dev/null)"
    for counters in /sys/bus/event_source/devices/cpu /sys/bus/event_source/devices/cpu_* /sys/bus/event_source/devices/arm*; do
        [ ! -e "$counters" ] || say "counters $counters"
    done
    for comm in $(grep -lsx jetwatch /proc/[0-9]*/comm); do
        words=$(tr '\000' ' ' <"${comm%comm}cmdline" 2>/dev/null)
        case $words in
        *' run '* | *' run') say "daemon $words" ;;
        esac
    done
    say "free $(df -Pk "$folder" | awk 'NR == 2 { print $4 }')"
    [ -n "$nsys" ] || return
    say "nsys $nsys"
    timeout 60 "$nsys" --version >"$folder/version" 2>&1
    timeout 60 "$nsys" profile --help >"$folder/help" 2>&1
    timeout 60 "$nsys" status -e >"$folder/environment" 2>&1
    timeout 60 "$nsys" sessions list >"$folder/sessions" 2>&1
    for name in version help environment sessions; do
        send "$name" "$folder/$name"
    done
}

say "jetwatch-profile 1"
while IFS='' read -r line <&3; do
    value=${line#* }
    case $line in
    'folder '*) # Where the temporary folder is made; `-` leaves that to the system.
        [ "$value" != - ] || value=${TMPDIR:-/tmp}
        folder=$(mktemp -d "$value/jetwatch-profile.XXXXXX" 2>&1) || { text=$folder folder=''; fail folder "$text"; }
        # nsys starts parts of itself elsewhere, which have to find it, too.
        folder=$(cd "$folder" && pwd)
        say "folder $folder"
        ;;
    'find '*)
        find_nsys "$value"
        probe
        say ready
        ;;
    'program '*)
        path=$(command -v "$value") || fail program "$value"
        say "program $path"
        timeout 60 "$path" --version >"$folder/text" 2>&1
        send version "$folder/text"
        say ready
        ;;
    'config '*)
        head -c "$value" <&3 >"$folder/jetwatch.yaml" || fail write "$folder"
        say ready
        ;;
    'remote-dir '*) # Relative paths of the configuration refer to what is there.
        for path in "$value"/*; do
            name=${path##*/}
            [ ! -e "$path" ] || [ "$name" = jetwatch.yaml ] || ln -s "$path" "$folder/$name"
        done
        say ready
        ;;
    'argument '*) set -- "$@" "$value" ;;
    'record '*) # Runs nsys with the arguments so far, in a session of its own, so that no Ctrl-C reaches it.
        begin_watch "$value"
        TMPDIR=$folder JETWATCH_PROFILE=$mark setsid "$nsys" "$@" >"$folder/log" 2>&1 </dev/null 3<&- &
        wait $!
        status=$?
        set --
        until_gone marked 100
        end_watch
        say "free $(df -Pk "$folder" | awk 'NR == 2 { print $4 }')"
        send log "$folder/log"
        say "status $status"
        say ready
        ;;
    'control '*) # Runs nsys with the system's temporary folder, for sessions of other programs.
        begin_watch "$value"
        timeout "$value" "$nsys" "$@" >"$folder/log" 2>&1 3<&- &
        wait $!
        status=$?
        set --
        end_watch
        say "free $(df -Pk "$folder" | awk 'NR == 2 { print $4 }')"
        send log "$folder/log"
        say "status $status"
        say ready
        ;;
    'session '*) session=$value ;; # To be left alone when this ends early.
    session) session='' ;;
    'hold '*)
        begin_watch $((${value%.*} + 60))
        JETWATCH_PROFILE=$mark sleep "$value" 3<&- &
        wait $!
        end_watch
        say ready
        ;;
    'fetch '*)
        send "$value" "$folder/$value"
        rm -f "$folder/$value"
        say ready
        ;;
    'end') break ;;
    *) fail order "$line" ;;
    esac
done
clean
say "clean"
