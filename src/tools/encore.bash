# bash completion for encore
_encore() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} search="--effort --seconds --exact-states --exact" options
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "plan curve simulate report trace --help --version" -- "$cur"))
    return
  fi
  case $prev in
    -b | --budget) COMPREPLY=($(compgen -W "80% 60% 50% 40% 30% 20%" -- "$cur")); return ;;
    --points | --effort | --seconds | --exact-states) return ;;
    -o | --output | --svg) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur")); return ;;
  esac
  case ${COMP_WORDS[1]} in
    plan) options="--budget --output --json $search" ;;
    curve) options="--points --svg --json $search" ;;
    simulate) options="--json" ;;
    report | trace) options="--output" ;;
    *) return ;;
  esac
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$options --help" -- "$cur"))
  else
    compopt -o filenames 2>/dev/null  # names of files may have blanks; a folder gets its slash
    local IFS=$'\n'
    COMPREPLY=($(compgen -f -X '!*.json' -- "$cur") $(compgen -d -- "$cur"))
  fi
}
complete -F _encore encore
