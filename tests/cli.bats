#!/usr/bin/env bats
# The command line against a real control plane; each test has its own.
# shellcheck disable=SC2016,SC2154

bats_require_minimum_version 1.5.0

setup() {
    WEIR=${WEIR_BUILD:-$BATS_TEST_DIRNAME/../build}/weir
    HELPER=$BATS_TEST_DIRNAME/cli_helper.py
    EXAMPLES=$BATS_TEST_DIRNAME/../examples
    T=$BATS_TEST_TMPDIR
    export WEIR_STATE=$T/s LC_ALL=C.UTF-8 TERM=xterm
    unset WEIR_SOCKET WEIR_SERVER WEIR_TOKEN NO_COLOR
    UP=
}

# Nothing is left behind: what runs is killed, then the control plane leaves,
# then whatever still names this test's folder.
teardown() {
    if [ -n "$UP" ] && kill -0 "$UP" 2>/dev/null; then
        for id in $("$WEIR" ps -o json | jq_ids); do
            "$WEIR" abort "$id" --force >/dev/null 2>&1 || true
        done
        kill "$UP"
        wait "$UP" 2>/dev/null || true
    fi
    for dir in /proc/[0-9]*; do
        if tr '\0' ' ' 2>/dev/null <"$dir/cmdline" | grep -qF "$T/s"; then
            [ "${dir#/proc/}" = "$$" ] || kill -9 "${dir#/proc/}" || true
        fi
    done
}

jq_ids() {
    python3 -c 'import json,sys
for w in json.load(sys.stdin)["items"]: print(w["id"])' 2>/dev/null
}

# json EXPRESSION: of the object o on standard input.
json() {
    python3 -c 'import json,sys
o = json.load(sys.stdin)
print(eval(sys.argv[1]))' "$1"
}

start_up() {
    "$WEIR" up "$@" >"$T/up.log" 2>&1 3>&- &
    UP=$!
}

up() {
    start_up --devices sim:4xH100-80GB "$@"
    until_ok "$WEIR" pool show local || { cat "$T/up.log"; return 1; }
}

# Under valgrind each process takes a second.
many_processes() {
    [ -z "${WEIR_VALGRIND:-}" ] || skip "many processes that do little"
}

# until_ok COMMAND...: it succeeds, sooner or later.
until_ok() {
    local end=$((SECONDS + ${WEIR_TEST_DEADLINE:-60}))
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || { echo "never true: $*"; return 1; }
        sleep 0.1
    done
}

state_of() {
    "$WEIR" show "$1" -o json | json 'o.get("outcome") or o["state"]'
}

# waits_for TASK: seconds, from the time at which it got into its state.
waits_for() {
    "$WEIR" show "$1" -o json | json 'int(__import__("time").time() -
        __import__("datetime").datetime.fromisoformat(
            o["since"].replace("Z", "+00:00")).timestamp())'
}

is() {
    [ "$(state_of "$1")" = "$2" ]
}

sleeper() {
    "$WEIR" run --detach --name "${2:-sleeper}" -- sleep "${1:-600}"
}

# ---- without a control plane ----

@test "no control plane: says where it looked and what to do, ends with 6" {
    for verb in ps "show w1" "logs w1" "pool ls" "events" "top --once"; do
        # shellcheck disable=SC2086
        run -6 "$WEIR" $verb
        [ "$output" = "weir ${verb%% [wl-]*}: nobody answers at $T/s/weir.sock; start one with 'weir up'" ] ||
            [[ "$output" == *"nobody answers at $T/s/weir.sock; start one with 'weir up'" ]]
    done
}

@test "usage: one clear line, ends with 2" {
    run -2 "$WEIR"
    [ "${#lines[@]}" -eq 1 ]
    run -2 "$WEIR" rnu
    [ "$output" = "weir: 'rnu' is no verb; did you mean 'run'?" ]
    run -2 "$WEIR" ps --tennant x
    [ "$output" = "weir ps: unknown option '--tennant'; did you mean '--tenant'?" ]
    run -2 "$WEIR" show
    [ "$output" = "weir show: an argument is missing; usage: weir show WORKLOAD[/TASK] [--spec]" ]
    for verb in "tenant create" "reserve set" show run backup; do
        # shellcheck disable=SC2086
        run -2 "$WEIR" $verb ''
        [[ "$output" == "weir $verb: an argument is empty; usage: weir $verb "* ]]
    done
    run -2 "$WEIR" show 12
    [ "$output" = "weir show: '12' names no workload; expected one like w12, or w12/TASK ('weir ps -a' lists them)" ]
    run -2 "$WEIR" run nofile.yaml
    [ "$output" = "weir run: there is no file 'nofile.yaml' here" ]
    run -2 "$WEIR" run python train.py
    [[ "$output" == *"one argument too many"* ]]
    run -2 "$WEIR" run python
    [ "$output" = "weir run: there is no file 'python'; for a command write 'weir run -- python ...'" ]
    run -2 "$WEIR" run --gpus many -- true
    [[ "$output" == "weir run: --gpus: "* ]]
    run -2 "$WEIR" run x.yaml --gpus 1
    [[ "$output" == *"are for a command"* ]]
    run -2 "$WEIR" run --
    [ "$output" = "weir run: no command after '--'" ]
    run -2 "$WEIR" ps -o yaml
    [[ "$output" == *"expected table, wide or json" ]]
    run -2 "$WEIR" ps --server http://localhost:1
    [[ "$output" == *"expected https://HOST:PORT" ]]
    run -2 "$WEIR" pool
    [[ "${lines[0]}" == *"wants a verb"* ]]
    run -2 "$WEIR" up --listen 127.0.0.1:1
    [[ "$output" == *"nothing is served in the open" ]]
}

@test "every verb has help with an example, and help of all lists it" {
    many_processes
    "$WEIR" --help >"$T/all"
    n=0
    while read -r name; do
        # shellcheck disable=SC2086
        run -0 "$WEIR" $name --help
        [[ "$output" == *"examples:"*"weir "* ]]
        # shellcheck disable=SC2086
        [ "$output" = "$("$WEIR" help $name)" ]
        n=$((n + 1))
    done < <(sed -n 's/^  \([a-z]* \?[a-z]*\)  .*/\1/p' "$T/all")
    [ "$n" -ge 30 ]
}

@test "weir.1 lists every verb with its summary" {
    man=$BATS_TEST_DIRNAME/../man/weir.1
    command -v mandoc || skip "no mandoc"
    mandoc -T ascii "$man" | sed 's/.\x08//g' | tr -s ' \n' ' ' >"$T/page"
    "$WEIR" --help | sed -n 's/^  \([a-z]* \?[a-z]*\)  *\(.*\)/\1 \2/p' |
        grep -v '^weir' | tr -s ' ' >"$T/verbs"
    [ "$(wc -l <"$T/verbs")" -ge 30 ]
    while read -r line; do
        grep -qF -- "$line" "$T/page" || { echo "weir.1 lacks: $line"; return 1; }
    done <"$T/verbs"
    [ "$(grep -c '^\.It Cm' "$man")" -eq "$(wc -l <"$T/verbs")" ]
}

@test "weir.1 has the options of every verb, and no others" {
    many_processes
    man=$BATS_TEST_DIRNAME/../man/weir.1
    while read -r verb; do
        # shellcheck disable=SC2086
        "$WEIR" $verb --help | sed '1,/^options:/d; /^common options:/,$d' |
            grep -o '^  \(-., \)\?--[^ ]*' | sed 's/.*--//' >"$T/has"
        awk -v at=".Ss weir $verb" '/^\.S[sh] /{on = $0 == at} on' "$man" |
            sed -n 's/^\.It .*Fl -\([^ ]*\).*/\1/p' >"$T/told"
        diff "$T/has" "$T/told" || { echo "weir.1: $verb"; return 1; }
    done < <("$WEIR" --help | sed -n 's/^  \([a-z]* \?[a-z]*\)  .*/\1/p' |
                 grep -vx -e 'weir.*' -e 'up *' -e 'run *')
    [ "$(grep -c '^\.Ss weir ' "$man")" -ge 18 ]
}

@test "completion scripts are valid, and name every verb" {
    many_processes
    "$WEIR" completion bash >"$T/bash"
    bash -n "$T/bash"
    "$WEIR" completion zsh | tail -n +5 >"$T/zsh"
    diff "$T/bash" "$T/zsh"
    if command -v zsh; then "$WEIR" completion zsh | zsh -n; fi
    "$WEIR" completion fish >"$T/fish"
    if command -v fish; then fish -n "$T/fish"; fi
    for word in up run unpause tenant completion; do
        grep -q "$word" "$T/fish"
    done
    run -2 "$WEIR" completion tcsh
}

@test "bash completes verbs, their options and their words" {
    many_processes
    "$WEIR" completion bash >"$T/bash"
    completed() {
        bash -c 'PATH=$(dirname "$1"):$PATH; . "$2"; shift 2
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _weir
            echo "${COMPREPLY[*]}"' - "$WEIR" "$T/bash" "$@"
    }
    [ "$(completed weir unp)" = unpause ]
    [ "$(completed weir tenant r)" = remove ]
    [ "$(completed weir run --det)" = --detach ]
    [ "$(completed weir ps -o w)" = wide ]
    [ "$(completed weir completion f)" = fish ]
    up
    id=$(sleeper)
    [ "$(completed weir abort w)" = "$id" ]
    [ "$(completed weir pool show l)" = local ]
}

@test "progress: only from inside a task, and only what makes sense" {
    run -2 "$WEIR" progress 0.5
    [[ "$output" == "weir progress: this is for tasks: "* ]]
    mkfifo "$T/pipe"
    exec 9<>"$T/pipe"
    WEIR_PROGRESS=$T/pipe "$WEIR" progress 0.5 loss=0.25
    read -r -t 10 line <&9
    [ "$line" = "0.5 loss=0.25" ]
    for word in 1.5 -0.1 nonsense loss= =1 "a b=1"; do
        WEIR_PROGRESS=$T/pipe run -2 "$WEIR" progress -- "$word"
    done
    WEIR_PROGRESS=$T/pipe run -2 "$WEIR" progress loss=1 0.5
    exec 9>&-
}

@test "schema and version need no control plane" {
    "$WEIR" schema | json 'o["$schema"]' | grep -q json-schema.org
    "$WEIR" schema policy | json 'o["properties"]["patience"]["type"][0]' | grep -qx string
    run -2 "$WEIR" schema workload
    [ "$output" = "weir schema: 'workload' has no schema; expected document or policy" ]
    run -0 "$WEIR" version
    [[ "$output" == "weir "[0-9]* ]]
    [ "$("$WEIR" --version)" = "${lines[0]}" ]
    "$WEIR" version -o json | json 'o["version"]'
}

@test "ready says whether the control plane takes work" {
    run -6 "$WEIR" ready
    run -6 "$WEIR" ready --live
    up
    run -0 "$WEIR" ready
    [ "$output" = ok ]
    run -0 "$WEIR" ready --live
}

@test "a machine that is no pool runs nothing" {
    start_up --engine none
    until_ok "$WEIR" ready
    [ "$("$WEIR" pool ls -o json | json 'len(o["items"])')" = 0 ]
    "$WEIR" run --detach -- true
    run -0 "$WEIR" why w1
    [[ "$output" == *"No node has joined yet"* ]]
    [ ! -e "$T/s/engine/runner.lock" ]
    run -0 "$WEIR" pool add other --engine fake --conf devices=fake:1xH100-80GB
    ended() { "$WEIR" ps -a | grep -q succeeded; }
    until_ok ended
}

# ---- running things ----

@test "run FILE off a terminal: a line for each change, ends with 0" {
    up
    run -0 --separate-stderr "$WEIR" run "$EXAMPLES/pipeline.yaml"
    [[ "${lines[0]}" == *" w1 first-pipeline submitted: 3 tasks" ]]
    [[ "$output" == *"w1/train running on device 0 (simulated)"* ]]
    [[ "$output" == *"w1/report succeeded after"* ]]
    [[ "$stderr" == "w1 succeeded in "* ]]
    [[ "$output" != *$'\033'* ]]
}

@test "run FILE that fails ends with 1 and says where to look" {
    up
    run -1 --separate-stderr "$WEIR" run "$EXAMPLES/on-failure.yaml"
    [[ "$stderr" == *"train failed (exit status 3); see 'weir logs w1/train'" ]]
    run -1 --separate-stderr "$WEIR" run -o json "$EXAMPLES/on-failure.yaml"
    [ "$(json 'o["outcome"]' <<<"$output")" = failed ]
}

@test "run -- COMMAND: its output and its exit status are ours" {
    up
    run -0 "$WEIR" run -- sh -c 'echo to out; echo to err >&2'
    [ "$output" = $'to out\nto err' ]
    run -37 "$WEIR" run -- sh -c 'exit 37'
    [ "$output" = "" ]
    run -1 "$WEIR" run -- sh -c 'exit 200'
    [[ "$output" == *"ended with exit status 200" ]]
    run -1 "$WEIR" run -- sh -c 'kill -9 $$'
    [[ "$output" == *"ended by signal 9 (Killed)" ]]
    run -1 "$WEIR" run -- /no/such/program
    [[ "$output" == *"weir run: w5 "* ]]
}

@test "run -- COMMAND that Weir ended: it says why" {
    up
    run -1 "$WEIR" run --timeout 200ms -- sleep 60
    [ "$output" = "weir run: w1 ran past its timeout: ended by signal 15 (Terminated)" ]
    run -9 "$WEIR" run --timeout 200ms -- sh -c 'trap "exit 9" TERM; while :; do sleep 0.05; done'
    [ "${lines[-1]}" = "weir run: w2 ran past its timeout: ended with exit status 9" ]
    "$WEIR" pool show local -o json |
        json 'o["nodes"][0]["limits"]' | grep -q cgroup || return 0
    run -1 "$WEIR" run --memory 32Mi -- python3 -c 'bytearray(1 << 28)'
    [ "$output" = "weir run: w3 used more memory than it may: ended by signal 9 (Killed)" ]
}

@test "run -- COMMAND: folder, variables, braces, devices, ranks" {
    up
    cd "$T"
    run -0 "$WEIR" run -- pwd
    [ "$output" = "$(pwd -P)" ]
    MINE=here run -0 "$WEIR" run -e A=1 -e MINE -- sh -c 'echo $A $MINE $NOT'
    [ "$output" = "1 here" ]
    run -0 "$WEIR" run -- echo '{{ x }} {{{{'
    [ "$output" = '{{ x }} {{{{' ]
    run -0 "$WEIR" run --gpus 2 -- sh -c 'echo $CUDA_VISIBLE_DEVICES'
    [ "$output" = 0,1 ]
    run -0 "$WEIR" run --ranks 2 --cpus 0.5 -- sh -c 'echo rank $WEIR_RANK'
    [ "$(sort <<<"$output")" = $'0 | rank 0\n1 | rank 1' ]
}

@test "run -p, --tenant, --priority and --detach" {
    up
    run -0 "$WEIR" run --detach "$EXAMPLES/parameters.yaml" --priority 7
    [ "$output" = w1 ]
    [ "$("$WEIR" show w1 -o json | json 'o["priority"]')" = 7 ]
    run -0 "$WEIR" run -d -o json - <"$EXAMPLES/hello.yaml"
    [ "$(json 'o["id"]' <<<"$output")" = w2 ]
    run -2 "$WEIR" run -p lr "$EXAMPLES/parameters.yaml"
    run -3 "$WEIR" run -p nosuch=1 "$EXAMPLES/parameters.yaml"
    [[ "$output" == *nosuch* ]]
    run "$WEIR" run --tenant nobody -- true
    [ "$status" -ne 0 ]
}

@test "a document that is refused: every problem with its place, ends with 3" {
    up
    printf 'weir: 1\nkind: job\nrun: true\ngpuz: 1\ncpus: many\n' >"$T/bad.yaml"
    run -3 "$WEIR" run "$T/bad.yaml"
    [[ "$output" == *"$T/bad.yaml:4:1: "*gpuz*"did you mean 'gpus'?"* ]]
    [[ "$output" == *"$T/bad.yaml:5:"* ]]
    [ "$(grep -c gpuz <<<"$output")" = 1 ]
    head -c 9000000 /dev/zero | tr '\0' '#' >"$T/huge.yaml"
    run -3 "$WEIR" run "$T/huge.yaml"
    [[ "$output" == *"larger than 8 MiB"* ]]
    [ "$("$WEIR" ps -a --no-header)" = "" ]
    printf 'weir: 1\nkind: job\nrun: "true"\n' >"$T/plain.yaml"
    run -3 "$WEIR" run -p x=1 "$T/plain.yaml"
    [ "${lines[0]}" = "$T/plain.yaml: parameters: no parameter 'x' in this document" ]
}

@test "the same key is the same workload; another document is refused with 7" {
    up
    run -0 "$WEIR" run -d --key k "$EXAMPLES/hello.yaml"
    [ "$output" = w1 ]
    run -0 "$WEIR" run -d --key k "$EXAMPLES/hello.yaml"
    [ "$output" = w1 ]
    run -7 "$WEIR" run -d --key k "$EXAMPLES/gang.yaml"
}

@test "who comes to what runs already sees how long it has run" {
    up
    printf 'weir: 1\nkind: job\nname: held\nrun: sleep 600\n' >"$T/held.yaml"
    id=$("$WEIR" run --detach --key k "$T/held.yaml")
    until_ok bash -c '"$0" show "$1" | grep -q "1 running"' "$WEIR" "$id"
    sleep 1.2
    "$WEIR" run --key k "$T/held.yaml" >"$T/out" 2>&1 3>&- &
    client=$!
    until_ok grep -q "$id" "$T/out"
    "$WEIR" abort "$id"
    wait "$client" || [ $? -eq 130 ]
    grep -qE 'held aborted after [1-9]' "$T/out" || { cat "$T/out"; return 1; }
}

@test "a lost answer: the submit is repeated with the same key" {
    python3 "$HELPER" lossy "$T/sock" "$T/keys" 3>&- &
    server=$!
    until_ok test -S "$T/sock"
    run -0 "$WEIR" run -d --socket "$T/sock" "$EXAMPLES/hello.yaml"
    [ "$output" = w41 ]
    wait "$server"
    [ "$(wc -l <"$T/keys")" -eq 3 ]
    [ "$(sort -u "$T/keys" | wc -l)" -eq 1 ]
}

@test "run goes on across a restart of the control plane" {
    up
    "$WEIR" run -- sh -c 'for i in 1 2 3; do echo line $i; sleep 1; done' \
        >"$T/out" 2>"$T/err" 3>&- &
    client=$!
    until_ok grep -q 'line 1' "$T/out"
    kill -9 "$UP"
    wait "$UP" || true
    up
    wait "$client"
    [ "$(cat "$T/out")" = $'line 1\nline 2\nline 3' ]
    grep -q 'the connection broke' "$T/err"
}

# ---- the terminal ----

@test "on a terminal: a live tree, then its end" {
    up
    run -0 python3 "$HELPER" pty size:24x90 'expect:running' \
        'expect:succeeded in' -- "$WEIR" run "$EXAMPLES/pipeline.yaml"
    [[ "$output" == *"✔"*" prepare"* ]]
    [[ "$output" == *"└─"* ]]
    [[ "$output" == *"3/3"* ]]
    LC_ALL=C NO_COLOR=1 run -0 python3 "$HELPER" pty 'expect:succeeded in' \
        -- "$WEIR" run "$EXAMPLES/pipeline.yaml"
    [[ "$output" == *"+ prepare"* ]]
    [[ "$output" != *"✔"* ]]
    [[ "$output" != *$'\033[32m'* ]]
}

@test "Ctrl-C once detaches and says how to return; the workload goes on" {
    up
    run -130 python3 "$HELPER" pty 'expect:running' 'send:\x03' \
        'expect:press Ctrl-C again' 'expect:goes on without you' \
        -- "$WEIR" run "$EXAMPLES/../tests/cli_long.yaml"
    [[ "$output" == *"weir logs -f w1"* ]]
    [[ "$output" == *"weir abort w1"* ]]
    is w1 running
}

@test "Ctrl-C twice aborts the workload" {
    up
    run -130 python3 "$HELPER" pty 'expect:hello' 'send:\x03' \
        'expect:press Ctrl-C again' 'send:\x03' 'expect:aborting w1' \
        -- "$WEIR" run -- sh -c 'echo hello; sleep 600'
    is w1 aborted
}

@test "Ctrl-C three times kills what does not listen" {
    up
    run -130 python3 "$HELPER" pty 'expect:hello' 'send:\x03' \
        'expect:again' 'send:\x03' 'expect:aborting w1' 'send:\x03' \
        'expect:killing w1' \
        -- "$WEIR" run -- sh -c 'trap "" TERM INT; echo hello; while :; do sleep 1; done'
    is w1 aborted
}

@test "top refreshes, and q leaves the terminal as it was" {
    up
    id=$(sleeper)
    run -0 python3 "$HELPER" pty 'expect:weir top' 'expect:sleeper' 'send:q' \
        -- "$WEIR" top
    [[ "$output" == *$'\033[?1049h'*$'\033[?1049l'* ]]
    run -0 "$WEIR" top --once
    [[ "$output" == *"(simulated)"* ]]
    [[ "$output" == *"$id"*sleeper*running* ]]
    "$WEIR" top --once -o json | json 'o["waste"]["wr"]'
}

# ---- looking ----

@test "ps: what is under way, all, wide, json, watched" {
    up
    "$WEIR" run -- true
    id=$(sleeper)
    run -0 "$WEIR" ps --no-header
    [ "${#lines[@]}" -eq 1 ]
    [[ "${lines[0]}" == "w2  sleeper  default  "*"0/1"* ]]
    run -0 "$WEIR" ps -a
    [ "${#lines[@]}" -eq 3 ]
    [[ "${lines[0]}" == "ID  NAME "* ]]
    run -0 "$WEIR" ps -a -n 1 --no-header
    [ "${#lines[@]}" -eq 1 ]
    [[ "$("$WEIR" ps -o wide)" == *SUBMITTED* ]]
    [ "$("$WEIR" ps -o json | json '[w["id"] for w in o["items"]]')" = "['w2']" ]
    timeout 60 "$WEIR" ps -w >"$T/watch" 3>&- &
    watcher=$!
    until_ok grep -q w2 "$T/watch"
    sleeper 600 second
    until_ok grep -q second "$T/watch"
    kill "$watcher"
}

@test "show: a workload, a task, what was submitted; what is not there ends with 4" {
    up
    "$WEIR" run "$EXAMPLES/pipeline.yaml" >/dev/null 2>&1
    run -0 "$WEIR" show w1
    [[ "$output" == *"tasks"*"3, 3 succeeded"* ]]
    [[ "$output" == *"train    succeeded"* ]]
    run -0 "$WEIR" show w1/train
    [[ "$output" == *"succeeded"* ]]
    [ "$("$WEIR" show w1/train -o json | json 'o["task"]')" = train ]
    [ "$("$WEIR" show w1 -o json | json 'len(o["items"])')" = 3 ]
    "$WEIR" show w1 --spec | json 'len(o["tasks"])' | grep -qx 3
    run -4 "$WEIR" show w99
    [[ "$output" == "weir show: "*w99* ]]
    run -4 "$WEIR" show w1/nothing
    run -4 "$WEIR" logs w99
    run -4 "$WEIR" abort w99
}

@test "logs: of a task, of all tasks, of an attempt, followed" {
    up
    "$WEIR" run "$EXAMPLES/pipeline.yaml" >/dev/null 2>&1
    "$WEIR" logs w1 >"$T/all"
    grep -q '^prepare | ' "$T/all"
    grep -q '^train   | ' "$T/all"
    [ "$("$WEIR" logs w1/train)" = "$(sed -n 's/^train   | //p' "$T/all")" ]
    "$WEIR" logs -f w1 | sort >"$T/followed"
    sort "$T/all" | diff - "$T/followed"
    "$WEIR" logs w1/train -o json | head -1 | json 'o["task"]' | grep -qx train
    run "$WEIR" run --retries 1 -- sh -c 'echo attempt; exit 1'
    [ "$output" = $'attempt\nattempt' ]
    [ "$("$WEIR" logs w2 --attempt 1)" = attempt ]
    "$WEIR" run -d -- sh -c 'echo one; sleep 1; echo two'
    [ "$("$WEIR" logs -f w3)" = $'one\ntwo' ]
    run -4 "$WEIR" logs w3 --attempt 9
    "$WEIR" run -- seq 100000 >/dev/null
    run -0 bash -c '"$0" logs w4 | head -2' "$WEIR"
    [ "$output" = $'1\n2' ]
}

@test "what has run and waits again: waiting, and its time stands still" {
    up
    cat >"$T/again.yaml" <<END
weir: 1
kind: job
name: again
retries: {count: 1, backoff: 10m}
run: sleep 2; exit 1
END
    id=$("$WEIR" run --detach "$T/again.yaml")
    until_ok bash -c '"$0" show "$1" | grep -q "1 waiting"' "$WEIR" "$id"
    until_ok bash -c '"$0" ps | grep -q " waiting  *0/1 "' "$WEIR"
    "$WEIR" top --once | grep -q "^$id .* waiting  *0  *1 "
    [ "$("$WEIR" ps -o json | json 'o["items"][0]["state"]')" = running ]
    "$WEIR" show "$id/again" -o json | json '"attempt_started" in o' |
        grep -qx False
    ran=$("$WEIR" show "$id/again" -o json | json 'int(o["run_seconds"])')
    [ "$ran" -ge 2 ]
    sleep 1.5
    "$WEIR" show "$id/again" | grep -qx "time  *${ran}s"
    low=$(waits_for "$id/again")
    shown=$("$WEIR" why "$id/again" | sed -n 's/^since  *\([0-9]*\)s$/\1/p')
    [ "$low" -le "$shown" ]
    [ "$shown" -le "$(waits_for "$id/again")" ]
}

@test "why: the reason of what waits" {
    up
    "$WEIR" run -d --gpus 8 -- true
    run -0 "$WEIR" why w1
    [[ "$output" == *"w1/"*"(waiting)"* ]]
    [[ "$output" == *"why "*device* ]]
    task=$("$WEIR" show w1 -o json | json 'o["items"][0]["task"]')
    [ "$("$WEIR" why "w1/$task" -o json | json 'o["why"]["code"]')" = never-devices ]
    "$WEIR" run -- true
    [ "$("$WEIR" why w2)" = "nothing of w2 waits" ]
}

@test "events: listed, by type, followed" {
    up
    "$WEIR" run -- true
    run -0 "$WEIR" events w1
    [[ "${lines[0]}" == *"workload.submitted w1"* ]]
    [[ "${lines[-1]}" == *"workload.ended"*"outcome=succeeded"* ]]
    [ "$("$WEIR" events --type task.ended | wc -l)" -eq 1 ]
    [ "$("$WEIR" events --since 0:2 -n 1 -o json | json 'o["items"][0]["seq"]')" = 3 ]
    "$WEIR" events -o json | json 'o["items"][0]["seq"]' | grep -qx 1
    timeout 60 "$WEIR" events -f -o json -n 1 --type workload.submitted \
        >"$T/events" 3>&- &
    follower=$!
    for _ in $(seq 100); do
        "$WEIR" run -- true
        kill -0 "$follower" 2>/dev/null || break
    done
    wait "$follower"
    json 'o["type"]' <"$T/events" | grep -qx workload.submitted
}

# ---- acting ----

@test "abort, of a task and of all; pause, unpause, retry" {
    up
    id=$(sleeper)
    until_ok is "$id" running
    run -0 "$WEIR" abort "$id"
    [ "$output" = "w1 is ending" ]
    until_ok is "$id" aborted
    run -7 "$WEIR" abort "$id"
    run -0 "$WEIR" run -d "$EXAMPLES/../tests/cli_long.yaml"
    until_ok is w2 running
    run -0 "$WEIR" abort w2/first --force -o json
    json 'o["id"]' <<<"$output" | grep -qx w2
    until_ok is w2 aborted
    run -0 "$WEIR" retry w2
    [[ "$output" == "w3 submitted, as a retry of w2" ]]
    run -0 "$WEIR" pause w3
    [ "$("$WEIR" show w3 -o json | json 'o["paused"]')" = True ]
    run -0 "$WEIR" unpause w3
    [ "$("$WEIR" show w3 -o json | json 'o["paused"]')" = False ]
    run -4 "$WEIR" pause w3/nothing
}

@test "pool and node: what there is, drained, undrained" {
    up
    run -0 "$WEIR" pool ls
    [[ "$output" == *local*simulated* ]]
    run -0 "$WEIR" pool show local
    [[ "$output" == *"H100 (simulated)"* ]]
    [[ "$output" == *"limits kept by"* ]]
    node=$("$WEIR" pool show local -o json | json 'o["nodes"][0]["name"]')
    run -0 "$WEIR" node drain "$node"
    [[ "$("$WEIR" pool show local)" == *", drained"* ]]
    run -0 "$WEIR" node undrain "$node"
    [[ "$("$WEIR" pool show local)" != *", drained"* ]]
    run -4 "$WEIR" node drain nosuch
    run -4 "$WEIR" pool show nosuch
}

@test "tenant: created, shown, changed, removed (root), or refused (others)" {
    up
    run -0 "$WEIR" tenant ls
    [[ "$output" == *default* ]]
    if [ "$(id -u)" -ne 0 ]; then
        run -5 "$WEIR" tenant create red
        return
    fi
    run -0 "$WEIR" tenant create red --member root --max-gpus 2
    run -7 "$WEIR" tenant create red
    run -2 "$WEIR" tenant create none
    [ "$output" = "weir tenant create: 'none' cannot be the name of a tenant: where a parent is named it means that there is none" ]
    run -0 "$WEIR" tenant set red --add-member uid:7 --note 'a note'
    [ "$("$WEIR" tenant show red -o json | json 'o["members"]')" = "['uid:0', 'uid:7']" ]
    [ "$("$WEIR" tenant show red -o json | json 'o["max_gpus"]')" = 2 ]
    run -0 "$WEIR" tenant set red --remove-member uid:7 --max-gpus unlimited
    [[ "$output" == *unlimited* ]]
    [[ "$output" == *"a note"* ]]
    run -0 "$WEIR" run --tenant red -- true
    run -2 "$WEIR" tenant set red --member nosuchuser
    run -0 "$WEIR" tenant remove red
    run -4 "$WEIR" tenant show red
    run -7 "$WEIR" tenant remove default
}

@test "tenant: quota, parent, budget and weight, shown and taken away" {
    [ "$(id -u)" = 0 ] || skip "one user alone has one tenant"
    up
    "$WEIR" tenant create lab
    "$WEIR" tenant create vision --parent lab --quota 1.5
    run -2 "$WEIR" tenant set vision --weight 0
    "$WEIR" tenant set vision --budget '100 gpu_hours/month' --weight 3
    "$WEIR" tenant show vision >"$T/out"
    grep -q '^part of  *lab$' "$T/out"
    grep -q '^devices guaranteed  *1.5$' "$T/out"
    grep -q '^budget  *100 gpu_hours in 30d$' "$T/out"
    grep -q '^weight  *3$' "$T/out"
    "$WEIR" tenant set vision --idle-grace 20m --interactive-priority 50
    "$WEIR" tenant show vision -o json |
        json '(o["idle_grace_seconds"], o["interactive_priority"])' |
        grep -qx '(1200, 50)'
    run -2 "$WEIR" tenant set vision --idle-grace soon
    run -2 "$WEIR" tenant set vision --interactive-priority 1001
    [ "$output" = "weir tenant set: --interactive-priority: expected a number from -1000 to 1000, or 'none'; got '1001'" ]
    "$WEIR" tenant set vision --idle-grace none --interactive-priority none
    "$WEIR" tenant show vision -o json |
        json '"idle_grace_seconds" not in o and "interactive_priority" not in o' |
        grep -qx True
    "$WEIR" tenant set vision --budget none --parent none --quota 0
    "$WEIR" tenant show vision -o json |
        json '"budget" not in o and "parent" not in o and o["quota"] == 0' |
        grep -qx True
    for budget in 100 "100 gpu_hours" "0 money/month" "x money/month"; do
        run -2 "$WEIR" tenant set vision --budget "$budget"
        [[ "$output" == "weir tenant set: --budget: expected one such as "* ]]
    done
    run -2 "$WEIR" tenant set vision --budget "1 euro/month"
    run -2 "$WEIR" tenant set vision --budget "5 money/0s"
    [ "$output" = "weir tenant set: budget.period: expected day, week, month, year, or a time such as 90m, 12h, 30d or 2w" ]
    run -4 "$WEIR" tenant set vision --parent nobody
}

@test "policy: shown, tried, set, refused with its places, remembered" {
    up
    "$WEIR" policy show >"$T/p.yaml"
    grep -q '^# the defaults' "$T/p.yaml"
    run -0 "$WEIR" policy set "$T/p.yaml"
    [ "$output" = "nothing changes: this policy is in force" ]
    sed -i 's/^patience: .*/patience: 1h/' "$T/p.yaml"
    run -0 "$WEIR" policy set "$T/p.yaml" --dry-run
    [ "$output" = "patience: 10m -> 1h"$'\n'"nothing was changed yet" ]
    run -0 "$WEIR" policy set "$T/p.yaml"
    [ "${lines[1]}" = "policy version 1 is in force" ]
    "$WEIR" policy show | grep -q '^# version 1, set by uid:'
    "$WEIR" policy show | grep -qx 'patience: 1h'
    "$WEIR" policy set "$EXAMPLES/policy/busy.yaml"
    "$WEIR" policy show | grep -qx -- '- {model: H100, rating: 4, price: 3.2}'
    run -0 "$WEIR" policy history
    [[ "${lines[1]}" == "      2  "*"turns: checkpoint"* ]]
    [[ "${lines[2]}" == "      1  "*"patience: 1h" ]]
    printf 'weir: 1\nkind: policy\npatiense: 1h\n' >"$T/bad.yaml"
    run -3 "$WEIR" policy set "$T/bad.yaml"
    [ "${lines[0]}" = "$T/bad.yaml:3:1: patiense: unknown key 'patiense'; did you mean 'patience'?" ]
    run -2 "$WEIR" policy set "$T/nothing.yaml"
    "$WEIR" policy show -o json | json 'o["version"]' | grep -qx 2
    run -0 "$WEIR" policy set - <<<$'weir: 1\nkind: policy\nfair: True'
    "$WEIR" policy show | grep -qx 'fair: true'
    run -2 bash -c 'head -c 1100000 /dev/zero | "$0" policy set -' "$WEIR"
    [ "$output" = "weir policy set: standard input: larger than 1048576 bytes" ]
}

@test "prioritise, pause of one task, drain of one device" {
    up
    node=$("$WEIR" pool show local -o json | json 'o["nodes"][0]["name"]')
    "$WEIR" node drain "$node" --device 1
    "$WEIR" pool show local | grep -q '1  H100 (simulated, drained)'
    id=$("$WEIR" run --detach --gpus 4 --name big -- true)
    "$WEIR" prioritise "$id" 9
    "$WEIR" show "$id" | grep -q '^priority  *9$'
    "$WEIR" prioritise "$id/big" -- -9
    "$WEIR" show "$id/big" -o json | json 'o["priority"]' | grep -qx -- -9
    run -2 "$WEIR" prioritise "$id" high
    run -2 "$WEIR" prioritise "$id" -9
    [ "$output" = "weir prioritise: unknown option '-9'; a negative number is written after '--'" ]
    run -2 "$WEIR" prioritise "$id" 1001
    run -4 "$WEIR" prioritise "$id/small" 1
    "$WEIR" pause "$id/big"
    "$WEIR" node undrain "$node" --device 1
    "$WEIR" why "$id/big" | grep -qi paused
    "$WEIR" unpause "$id/big"
    until_ok is "$id" succeeded
    run -4 "$WEIR" node drain "$node" --device 99
    run -2 "$WEIR" node drain "$node" --device x
}

@test "labels of a machine, and documents that ask for them" {
    run -2 "$WEIR" up --label zone
    up --label zone=b --label disk=nvme --domain rack1
    "$WEIR" pool show local | grep -q '^labels  *zone=b disk=nvme$'
    "$WEIR" pool show local | grep -q '^domain  *rack1$'
    printf 'weir: 1\nkind: job\nrun: "true"\nnodes: {zone: b}\n' >"$T/b.yaml"
    "$WEIR" run "$T/b.yaml"
    sed 's/zone: b/zone: c/' "$T/b.yaml" >"$T/c.yaml"
    id=$("$WEIR" run -d "$T/c.yaml")
    [ "$("$WEIR" why "$id/job" -o json | json 'o["why"]["code"]')" = never-label ]
}

@test "an elastic gang takes what there is" {
    up
    printf 'weir: 1\nkind: job\nname: gang\ngpus: 1\ncpus: 0.1\nranks: {min: 2, max: 8}\nrun: echo "$WEIR_RANK of $WEIR_WORLD_SIZE"\n' >"$T/g.yaml"
    "$WEIR" run "$T/g.yaml"
    for rank in 0 1 2 3; do
        [ "$("$WEIR" logs w1/gang --rank $rank)" = "$rank of 4" ]
    done
    run -4 "$WEIR" logs w1/gang --rank 99
    [ "$output" = "weir logs: w1/gang: there is no rank 99 of attempt 1" ]
}

@test "reserve: nodes for nobody, until they are let go again" {
    up
    there() { node=$("$WEIR" pool show local -o json | json 'o["nodes"][0]["name"]'); }
    until_ok there
    run -2 "$WEIR" reserve set repair --nodes "$node"
    run -2 "$WEIR" reserve set repair --nodes "$node" --to soon
    run -2 "$WEIR" reserve set repair --nodes "$node" --from 3h --to 2h
    [ "$output" = "weir reserve set: it ends before it begins, or is over already" ]
    run -2 "$WEIR" reserve set 'a b' --nodes "$node" --to 2h
    run -4 "$WEIR" reserve set repair --nodes elsewhere --to 2h
    run -2 "$WEIR" reserve set repair --nodes "$node,$node" --to 2h
    [ "$output" = "weir reserve set: nodes: '$node' is there twice" ]
    "$WEIR" reserve set repair --nodes "$node" --to 2h
    "$WEIR" reserve ls | grep -q "^repair  *nobody .* $node\$"
    id=$("$WEIR" run --detach -- true)
    [ "$("$WEIR" why "$id/true" -o json | json 'o["why"]["code"]')" = window ]
    "$WEIR" reserve remove repair
    until_ok is "$id" succeeded
    run -4 "$WEIR" reserve remove repair
}

@test "cost and progress: what a task used, and what it says about itself" {
    up
    printf 'weir: 1\nkind: policy\nprice_hour: 36000\n' >"$T/p.yaml"
    "$WEIR" policy set "$T/p.yaml"
    id=$("$WEIR" run --detach --gpus 1 --name learn -- sh -c "
        '$WEIR' progress 0.25 loss=4
        sleep 1.2
        '$WEIR' progress 0.5 loss=2
        until [ -e '$T/go' ]; do sleep 0.1; done")
    half() {
        "$WEIR" show "$id/learn" | grep -q '^progress  *50.0%$'
    }
    until_ok half
    "$WEIR" show "$id/learn" | grep -q '^loss  *2  *█▁$'
    touch "$T/go"
    until_ok is "$id" succeeded
    "$WEIR" cost "$id" | grep -q '^learn  succeeded'
    "$WEIR" cost --by workload -o json | json 'o["items"][0]["cost"] > 5' | grep -qx True
    "$WEIR" cost --since 1h -o json | json 'o["items"][0]["workloads"]' | grep -qx 1
    "$WEIR" cost | grep -q "^default "
    run -4 "$WEIR" cost --tenant nobody
    run -2 "$WEIR" cost --by moon
    run -2 "$WEIR" cost --since soon
    run -2 "$WEIR" cost "$id" --by tenant
}

@test "token: made, used over TLS, revoked" {
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
        -keyout "$T/key" -out "$T/cert" 2>/dev/null
    port=$(python3 -c 'import socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    up --listen "127.0.0.1:$port" --tls-cert "$T/cert" --tls-key "$T/key"
    run -2 "$WEIR" token create ci --expires soon
    [ "$output" = "weir token create: --expires: expected a time such as 30d, or never, got 'soon'" ]
    run -0 --separate-stderr "$WEIR" token create ci --role user --tenant default
    [[ "$output" == weir_* ]]
    [[ "$stderr" == *"shown this once"* ]]
    printf '%s\n' "$output" >"$T/token"
    remote=(--server "https://127.0.0.1:$port" --ca "$T/cert")
    run -0 "$WEIR" ps "${remote[@]}" --token-file "$T/token"
    WEIR_TOKEN=$(cat "$T/token") run -0 "$WEIR" ps "${remote[@]}"
    run -5 "$WEIR" ps "${remote[@]}"
    run -6 "$WEIR" ps --server "https://127.0.0.1:$port" --token-file "$T/token"
    run -5 "$WEIR" tenant create red "${remote[@]}" --token-file "$T/token"
    id=$("$WEIR" token ls -o json | json 'o["items"][0]["id"]')
    [[ "$("$WEIR" token ls)" == *"$id"*ci*user*default*good* ]]
    run -0 "$WEIR" token revoke "$id"
    run -5 "$WEIR" ps "${remote[@]}" --token-file "$T/token"
    [[ "$("$WEIR" token ls)" == *revoked* ]]
}

@test "backup and restore: what ran comes back in quarantine and is released" {
    up
    "$WEIR" run -- true
    id=$(sleeper 600)
    until_ok is "$id" running
    cd "$T"
    run -0 "$WEIR" backup copy.db
    [ "$output" = "backed up to $T/copy.db" ]
    run -7 "$WEIR" backup copy.db
    run -2 "$WEIR" backup /
    [ "$output" = "weir backup: file: expected a file by its whole path, such as /backup/weir.db" ]
    run -7 "$WEIR" restore copy.db
    [[ "$output" == *"stop it first"* ]]
    "$WEIR" abort "$id" --force
    until_ok is "$id" aborted
    kill "$UP"
    wait "$UP"
    run -2 "$WEIR" restore nosuch.db
    echo a,b >t.csv
    run -8 "$WEIR" restore t.csv
    [ "$output" = "weir restore: 't.csv' is no backup of a store, or is damaged; nothing was changed" ]
    run -0 "$WEIR" restore copy.db
    up
    is "$id" quarantined
    is w1 succeeded
    run -0 "$WEIR" release "$id" --abort
    until_ok is "$id" aborted
}

@test "devices that make no sense leave no trace of an earlier life" {
    run -2 "$WEIR" up --devices sim:0xH100
    run -2 "$WEIR" up --devices sim:0xH100
    [ "$output" = "weir up: devices 'sim:0xH100': '0xH100': expected COUNTxMODEL-MEMORY, as in 4xH100-80GB" ]
}

@test "a state folder that others can list is told, one that they can write refused" {
    mkdir -m 0755 "$T/s"
    up
    grep -q "others can list the state folder" "$T/up.log"
    kill "$UP"
    wait "$UP"
    chmod 0711 "$T/s"
    up
    run -1 grep "others can list" "$T/up.log"
    kill "$UP"
    wait "$UP"
    UP=
    chmod 0777 "$T/s"
    run -5 "$WEIR" up
    [ "$output" = "weir up: others can write to folder '$T/s'" ]
}

@test "a second control plane on the same folder is refused with 7" {
    up
    run -7 "$WEIR" up
    [[ "$output" == *"another control plane uses '$T/s'"* ]]
}

@test "output that cannot be written is an error" {
    up
    [ -e /dev/full ] || skip "no /dev/full"
    run -8 bash -c '"$0" pool ls >/dev/full' "$WEIR"
    run -8 bash -c '"$0" run -- seq 100000 >/dev/full' "$WEIR"
}

@test "sim: bad arguments get one line and status 2" {
    printf 'submit_s,duration_s,gpus\n0,60,1\n' >"$T/jobs.csv"
    sim() { "$WEIR" sim run --trace "$T/jobs.csv" --nodes 1x8 "$@"; }
    run -0 sim --policy fifo,weir
    run -2 sim --policy fifo,
    [[ "$output" = "weir sim run: --policy '': there are fifo,"* ]]
    run -2 sim --policy fifo --muri
    [ "$output" = "weir sim run: --muri is for srtf, srsf and las, not for fifo" ]
    printf 'weir: 1\nkind: policy\nmodels:\n- {model: q, rating: 4}\n' >"$T/rules.yaml"
    run -0 "$WEIR" sim run --trace "$T/jobs.csv" --nodes 1x8:q+1x8:s --policy weir --rules "$T/rules.yaml" -o json
    [[ "$output" = *'"avg_jct_s": 15.0'* ]]
    run -2 sim --policy srtf --muri --rules "$T/rules.yaml"
    [ "$output" = "weir sim run: --muri has rules of its own" ]
    printf 'weir: 1\nkind: policy\nburst_margin: much\n' >"$T/rules.yaml"
    run -3 sim --policy weir --rules "$T/rules.yaml"
    [[ "$output" = *"rules.yaml:3:15: burst_margin: expected a number from -10 to 10, got 'much'" ]]
    run -2 "$WEIR" sim run --trace "$T/jobs.csv" --nodes 1x8:q+1x4:s --policy weir
    [[ "$output" = *"as many GPUs each and are one cluster" ]]
    run -2 "$WEIR" sim run --trace "$T/none.csv" --nodes 1x8 --policy fifo
    [ "$output" = "weir sim run: there is no file '$T/none.csv' here" ]
    run -2 sim --policy weir --suspend-cost 2d
    [ "$output" = "weir sim run: --suspend-cost: at most 1d" ]
    run -2 sim --policy weir --startup 1m --lookahead 100000000d
    [ "$output" = "weir sim run: --lookahead: at most 1d" ]
    run -2 "$WEIR" sim mixed --lookahead 1m
    [ "$output" = "weir sim mixed: --lookahead needs --startup" ]
    run -2 "$WEIR" sim mixed --startup 1m --lookahead soon
    [ "$output" = "weir sim mixed: --lookahead: 'soon' does not start with a digit" ]
    run -2 "$WEIR" sim mixed --duty 0
    [ "$output" = "weir sim mixed: --duty: expected more than 0" ]
    run -2 "$WEIR" sim dag "$T/jobs.csv" --slots 0
    printf 'weir: 1\n' >"$T/if.yaml"
    run -3 "$WEIR" sim --from-live here --what-if "$T/if.yaml"
    [[ "$output" = *"if.yaml:1:1: unknown key 'weir'; expected one of nodes, without, tenants, policy" ]]
}

@test "sim: what would be left out is refused, or said" {
    printf 'submit_s,duration_s,gpus\n0,60,1\n30,60,1\n' >"$T/jobs.csv"
    one() { "$WEIR" sim run --trace "$T/jobs.csv" --nodes 1x8 "$@"; }
    run -2 one --policy fifo --startup 60s --lookahead 1m
    [ "$output" = "weir sim run: --lookahead: only weir looks ahead, not fifo" ]
    run -0 one --policy fifo,weir --startup 60s --lookahead 1m
    run -2 one --policy srtf --muri --suspend-cost 5s
    [ "$output" = "weir sim run: --muri has a suspend cost of its own" ]
    run -2 one --policy srtf --muri --quotas "$T/jobs.csv" --pin
    [ "$output" = "weir sim run: --muri keeps no tenant to a cluster; leave --pin out" ]
    run -0 "$WEIR" sim run --trace "$T/jobs.csv" --nodes 1x64 --policy fifo
    run -2 "$WEIR" sim run --trace "$T/jobs.csv" --nodes 1x17 --policy fifo,weir
    [ "$output" = "weir sim run: --nodes: '1x17': at most 16 GPUs on a node with weir" ]
    printf 'weir: 1\nkind: policy\nmodels:\n- {model: Quick, rating: 4}\n' >"$T/rules.yaml"
    run -0 --separate-stderr "$WEIR" sim run --trace "$T/jobs.csv" --nodes 1x8:qiuck --policy fifo --rules "$T/rules.yaml"
    [ "$stderr" = "weir sim run: --nodes: the rules have no model 'qiuck', it is rated 1; did you mean 'Quick'?" ]
    run -0 --separate-stderr "$WEIR" sim run --trace "$T/jobs.csv" --nodes 1x8:quick --policy fifo --rules "$T/rules.yaml"
    [ -z "$stderr" ]
    run -0 --separate-stderr one --policy fifo --rules "$T/rules.yaml"
    [ -z "$stderr" ]
}

@test "sim: one file can be standard input" {
    printf 'submit_s,duration_s,gpus\n0,60,1\n30,x,1\n' >"$T/jobs.csv"
    run -3 "$WEIR" sim run --trace - --nodes 1x8 --policy fifo <"$T/jobs.csv"
    [[ "$output" = "weir sim run: standard input:3: duration_s 'x': "* ]]
    sed -i '$d' "$T/jobs.csv"
    run -0 "$WEIR" sim run --trace - --nodes 1x8 --policy fifo <"$T/jobs.csv"
    printf 'weir: 1\nkind: policy\n' >"$T/rules.yaml"
    run -0 "$WEIR" sim run --trace "$T/jobs.csv" --nodes 1x8 --policy weir --rules - <"$T/rules.yaml"
    run -2 "$WEIR" sim run --trace - --nodes 1x8 --policy weir --rules - <"$T/rules.yaml"
    [ "$output" = "weir sim run: standard input has been read: one file alone can be '-'" ]
}

@test "sim: what is not worked out is no 0" {
    printf 'submit_time,iteration_time,iterations,num_gpu,model_name\n0,100,600,1,vgg16\n5000,100,300,1,dqn\n' >"$T/muri.csv"
    muri() { "$WEIR" sim run --trace "$T/muri.csv" --nodes 1x8 --muri "$@"; }
    run -0 muri --policy srtf,las
    [[ "${lines[1]}" =~ ^srtf\ .*-\ +-\ +-$ ]]
    run -0 muri --policy srtf,las -o csv
    [[ "${lines[0]}" == *,makespan_s ]]
    [ "$(tr -cd , <<<"${lines[0]}")" = "$(tr -cd , <<<"${lines[1]}")" ]
    run -0 muri --policy las -o json
    [[ "$output" != *preemptions* && "$output" != *util* ]]
    # Shares are of the time between the first submission and the last.
    printf 'submit_s,duration_s,gpus\n7,60,1\n7,60,1\n' >"$T/jobs.csv"
    same() { "$WEIR" sim run --trace "$T/jobs.csv" --nodes 1x1 "$@"; }
    run -0 same --policy fifo
    [[ "$output" == *"in use       no shares: all jobs were submitted at once"* ]]
    run -0 same --policy fifo,weir
    [[ "${lines[1]}" =~ ^fifo\ .*-\ +-\ +0$ ]]
    run -0 same --policy fifo -o json
    [[ "$output" == *'"preemptions": 0'* && "$output" != *util* ]]
    run -0 same --policy fifo,las -o csv
    [[ "${lines[0]}" == *,makespan_s,preemptions ]]
    run -0 same --policy fifo,las -o html
    [[ "$output" == *"all were submitted at once, so there are none"* ]]
    # 30 s of the only 60 are the startup, of all GPU time.
    printf 'submit_s,duration_s,gpus\n0,60,1\n60,60,1\n' >"$T/jobs.csv"
    run -0 "$WEIR" sim run --trace "$T/jobs.csv" --nodes 1x2 --policy fifo --startup 30s
    [[ "$output" == *"in use        50.00 %: 25.00 % to work, 25.00 % to start up and resume"* ]]
}

@test "an image where there are none: it never starts, and why says so" {
    up
    printf 'weir: 1\nkind: job\nname: boxed\nimage: a/b:1\nrun: echo out\n' >"$T/i.yaml"
    run -0 "$WEIR" run -d "$T/i.yaml"
    [ "$("$WEIR" why w1/boxed -o json | json 'o["why"]["code"]')" = never-image ]
    run -0 "$WEIR" why w1/boxed
    [[ "$output" = *"it asks for the image 'a/b:1', and no node runs images."* ]]
}
