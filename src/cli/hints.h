// Tells users what to type instead of a word that gpuman does not have, for words that they know from other
// programs: shells, Docker, Slurm, gflow, nvidia-smi. Pure; base::Nearest handles misspellings of gpuman's
// own words.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace gpuman::cli {

struct HintRule {
  std::string_view path;
  std::string_view words;  // "kill|stop": any of these; "#": a number; "*": any word that is no option
  std::string_view text;   // "{}" stands for the word
};
// All of them. Of those that fit a word, the first counts.
std::span<const HintRule> Hints();

// `path` is the command that got the word: "gpuman", "gpuman device". `word` is an argument or an option that
// the command does not know. `any_word`: hints that fit every word or every number count, too. Empty: there
// is no hint.
std::string HintFor(std::string_view path, std::string_view word, bool any_word = true);

}  // namespace gpuman::cli
