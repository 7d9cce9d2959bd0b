#include "operator/cli/completion.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::cli {
namespace {

std::string names(const std::vector<CommandWords>& commands) {
  std::string text;
  for (const CommandWords& command : commands) text += (text.empty() ? "" : " ") + command.name;
  return text;
}

// One function for bash; zsh runs the same through bashcompinit.
std::string bash(const std::vector<CommandWords>& commands) {
  std::string text =
      "_lockstep() {\n"
      "  local word=\"${COMP_WORDS[COMP_CWORD]}\" command=\"${COMP_WORDS[1]}\" options=\"\" files=\"\"\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n";
  text += fmt::format("    COMPREPLY=($(compgen -W \"{} --help --version\" -- \"$word\"))\n    return\n  fi\n",
                      names(commands));
  for (const CommandWords& command : commands) {
    if (command.words.empty()) continue;
    text += fmt::format(
        "  if [ \"$COMP_CWORD\" -eq 2 ] && [ \"$command\" = {} ]; then\n"
        "    COMPREPLY=($(compgen -W \"{} --help\" -- \"$word\"))\n    return\n  fi\n",
        command.name, fmt::join(command.words, " "));
  }
  text += "  case \"$command\" in\n";
  for (const CommandWords& command : commands) {
    text += fmt::format("    {}) options=\"{}\"; files=\"{}\" ;;\n", command.name, fmt::join(command.options, " "),
                        command.takes_files ? "yes" : "");
  }
  // The shell takes --option=word apart.
  text +=
      "  esac\n"
      "  local option=\"${COMP_WORDS[COMP_CWORD-1]}\" values=\"\"\n"
      "  if [ \"$option\" = \"=\" ]; then option=\"${COMP_WORDS[COMP_CWORD-2]}\"; fi\n"
      "  if [ \"$word\" = \"=\" ]; then word=\"\"; fi\n"
      "  case \"$command $option\" in\n";
  for (const CommandWords& command : commands) {
    for (const auto& [option, values] : command.values) {
      text += fmt::format("    \"{} {}\") values=\"{}\" ;;\n", command.name, option, fmt::join(values, " "));
    }
  }
  text +=
      "  esac\n"
      "  if [ -n \"$values\" ]; then\n"
      "    COMPREPLY=($(compgen -W \"$values\" -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case \"$word\" in\n"
      "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
      "    *) [ -n \"$files\" ] && COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
      "  esac\n"
      "}\n"
      "complete -o filenames -F _lockstep lockstep\n";
  return text;
}

std::string fish(const std::vector<CommandWords>& commands) {
  std::string text = "complete -c lockstep -f\n";
  for (const CommandWords& command : commands) {
    text +=
        fmt::format("complete -c lockstep -n __fish_use_subcommand -a {} -d '{}'\n", command.name, command.description);
    const std::string when = fmt::format("-n '__fish_seen_subcommand_from {}'", command.name);
    if (command.takes_files) text += fmt::format("complete -c lockstep {} -F\n", when);
    if (!command.words.empty()) {
      text += fmt::format("complete -c lockstep {} -a '{}'\n", when, fmt::join(command.words, " "));
    }
    for (const std::string& option : command.options) {
      const bool is_long = option.starts_with("--");
      text += fmt::format("complete -c lockstep {} -{} {}", when, is_long ? "l" : "s", option.substr(is_long ? 2 : 1));
      const auto values = command.values.find(option);
      text += values == command.values.end() ? "\n" : fmt::format(" -x -a '{}'\n", fmt::join(values->second, " "));
    }
  }
  return text;
}

}  // namespace

Result<std::string> completion_script(const std::string& shell, const std::vector<CommandWords>& commands) {
  if (shell == "bash") return bash(commands);
  if (shell == "zsh") return "autoload -U +X bashcompinit && bashcompinit\n" + bash(commands);
  if (shell == "fish") return fish(commands);
  return fail(ErrorCode::kInvalid, "\"" + shell + "\" is none of bash, zsh and fish");
}

}  // namespace lockstep::cli
