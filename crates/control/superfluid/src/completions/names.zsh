_superfluid_names() { # KIND
    local -a names
    names=(${(f)"$(timeout 1 superfluid names "$1" 2>/dev/null)"})
    compadd -a names
}

_superfluid() {
    local kind=
    if ((CURRENT >= 3)) && [[ $words[CURRENT] != -* && $words[CURRENT-1] != -* ]]; then
        case "$words[2] $words[3]" in
        get\ * | describe\ * | edit\ * | delete\ *) ((CURRENT >= 4)) && kind=$words[3] ;;
        function\ create) ;;
        function\ *) ((CURRENT >= 4)) && kind=functions ;;
        snapshot\ save) ((CURRENT >= 4)) && kind=functions ;;
        snapshot\ restore | snapshot\ rm | snapshot\ adopt) ((CURRENT >= 4)) && kind=snapshots ;;
        neighbours\ *) ((CURRENT == 3)) && kind=devices ;;
        upgrade\ *) ((CURRENT == 3)) && kind=functions ;;
        esac
    fi
    if [[ -n $kind ]]; then
        _superfluid_names "$kind"
    else
        _superfluid_generated "$@"
    fi
}

