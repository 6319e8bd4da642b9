_superfluid_names() { # KIND CURRENT
    local name
    COMPREPLY=()
    while IFS= read -r name; do
        [[ $name == "$2"* ]] && COMPREPLY+=("$name")
    done < <(timeout 1 superfluid names "$1" 2>/dev/null)
}

_superfluid_or_names() {
    local current=${COMP_WORDS[COMP_CWORD]} kind=
    if ((COMP_CWORD >= 2)) && [[ $current != -* && ${COMP_WORDS[COMP_CWORD - 1]} != -* ]]; then
        case "${COMP_WORDS[1]} ${COMP_WORDS[2]}" in
        get\ * | describe\ * | edit\ * | delete\ *) ((COMP_CWORD >= 3)) && kind=${COMP_WORDS[2]} ;;
        function\ create) ;;
        function\ *) ((COMP_CWORD >= 3)) && kind=functions ;;
        snapshot\ save) ((COMP_CWORD >= 3)) && kind=functions ;;
        snapshot\ restore | snapshot\ rm | snapshot\ adopt) ((COMP_CWORD >= 3)) && kind=snapshots ;;
        neighbours\ *) ((COMP_CWORD == 2)) && kind=devices ;;
        upgrade\ *) ((COMP_CWORD == 2)) && kind=functions ;;
        esac
    fi
    if [[ -n $kind ]]; then
        _superfluid_names "$kind" "$current"
    else
        _superfluid "$@"
    fi
}

complete -F _superfluid_or_names -o bashdefault -o default superfluid
