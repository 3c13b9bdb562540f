// The scripts that `gpuman completion SHELL` prints. Each needs nothing but its shell.
#pragma once

#include <string>
#include <string_view>

namespace gpuman::cli {

// For bash 4 and later, with or without the bash-completion package.
inline constexpr const char* kBashCompletion = R"bash(# bash completion for gpuman
_gpuman() {
  # bash splits words at '=' and ':' too: put together again what no blank separates.
  local rest=$COMP_LINE word blank i words=()
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    blank=${rest%%[![:blank:]]*}
    rest=${rest#"$blank"}
    rest=${rest#"$word"}
    if ((i > 0)) && [[ -z $blank ]]; then
      words[${#words[@]}-1]+=$word
    else
      words+=("$word")
    fi
  done
  local current=${words[${#words[@]}-1]} part=${COMP_WORDS[COMP_CWORD]} cut
  [[ $part == [=:]* ]] && part=
  cut=${current%"$part"}

  local program=${words[0]/#\~/$HOME} line
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :files*) compopt -o default ;;
      :command*) mapfile -t COMPREPLY < <(compgen -c -- "$current") ; compopt -o default ;;
      *)
        line=${line%%$'\t'*}
        [[ -n $cut ]] && line=${line#"$cut"}
        printf -v line %q "$line"
        COMPREPLY+=("$line") ;;
    esac
  done < <("$program" __complete "${words[@]:1}" 2>/dev/null)
}
complete -F _gpuman gpuman
)bash";

inline constexpr const char* kZshCompletion = R"zsh(#compdef gpuman
_gpuman() {
  local line
  local -a candidates
  for line in "${(@f)$("${words[1]/#\~/$HOME}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    case $line in
      '') ;;
      :files*) _files ;;
      :command*) _alternative 'commands:command:_command_names -e' 'files:file:_files' ;;
      *) candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
    esac
  done
  (( $#candidates )) && _describe -V gpuman candidates
}
if [[ $funcstack[1] == _gpuman ]]; then
  _gpuman "$@"
elif (( $+functions[compdef] )); then
  compdef _gpuman gpuman
fi
)zsh";

inline constexpr const char* kFishCompletion = R"fish(# fish completion for gpuman
function __gpuman_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program (string replace -r '^~' $HOME -- $words[1])
    for line in ($program __complete $words[2..-1] "$current" 2>/dev/null)
        switch $line
            case ':files*'
                __fish_complete_path "$current"
            case ':command*'
                __fish_complete_command
            case '*'
                echo $line
        end
    end
end
complete -c gpuman -f -a '(__gpuman_complete)'
)fish";

// The script of a program for bash, zsh or fish.
inline std::string CompletionScript(std::string_view shell, std::string_view program = "gpuman") {
  constexpr std::string_view kName = "gpuman";
  std::string script(shell == "bash" ? kBashCompletion : shell == "zsh" ? kZshCompletion : kFishCompletion);
  for (std::size_t at = 0; (at = script.find(kName, at)) != std::string::npos; at += program.size())
    script.replace(at, kName.size(), program);
  return script;
}

}  // namespace gpuman::cli
