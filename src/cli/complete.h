// The words that could stand next on a command line of gpuman; the completion of every shell asks here.
//
// The shells' scripts (completion_scripts.h) call `gpuman __complete WORDS…`. The last word is the one under
// the cursor, possibly empty. The answer has lines of "candidate TAB description". A line that begins with
// ':' asks the shell to complete by itself: ":files", ":command".
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/command.h"

namespace gpuman::cli {

inline constexpr const char* kCompleteWord = "__complete";

struct CompletionItem {
  std::string text;
  std::string description;
  friend bool operator==(const CompletionItem&, const CompletionItem&) = default;
};

// Names that only the daemon knows. The lists are empty where no daemon answers.
struct CompletionSources {
  std::function<std::vector<CompletionItem>()> jobs;
  std::function<std::vector<CompletionItem>()> gpus;
};

// Candidates for the last of `words`; `words` does not have the program's name. `common`: the options that
// each command has.
std::vector<CompletionItem> Complete(const Command& program, const Options& common,
                                     const std::vector<std::string>& words, const CompletionSources& names);

// The hidden command itself. It asks a daemon only if one runs, waits for it no longer than a key press may
// take, and prints nothing when it fails.
int PrintCandidates(const Command& program, const Options& common, CommandContext& session,
                    const std::vector<std::string>& words);

}  // namespace gpuman::cli
