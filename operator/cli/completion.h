// Scripts that complete the command line in bash, zsh and fish.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "operator/base/result.h"

namespace lockstep::cli {

struct CommandWords {
  std::string name, description;
  std::vector<std::string> words;                          // of which the first argument is one; empty: any
  std::vector<std::string> options;                        // "--follow", "-f"; of all `words`
  std::map<std::string, std::vector<std::string>> values;  // of options that take one of a few words
  bool takes_files = false;                                // else names of jobs, which are not completed
};

// kInvalid for another shell.
Result<std::string> completion_script(const std::string& shell, const std::vector<CommandWords>& commands);

}  // namespace lockstep::cli
