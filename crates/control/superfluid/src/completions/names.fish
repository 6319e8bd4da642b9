
# Prints the kind of object that the word at the cursor names, or fails.
function __superfluid_kind
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l count (count $words)
    test $count -ge 2; or return 1
    string match -q -- '-*' "$current" $words[-1]; and return 1
    switch "$words[2..-1]"
        case 'get *' 'describe *' 'edit *' 'delete *'
            echo $words[3]
        case 'function create*'
            return 1
        case 'function *' 'snapshot save*'
            echo functions
        case 'snapshot restore*' 'snapshot rm*' 'snapshot adopt*'
            echo snapshots
        case neighbours
            echo devices
        case upgrade
            echo functions
        case '*'
            return 1
    end
end

function __superfluid_names
    timeout 1 superfluid names (__superfluid_kind) 2>/dev/null
end

complete -c superfluid -n '__superfluid_kind >/dev/null' -f -a '(__superfluid_names)'
