// What to type instead of a word that gpuman does not have, for words that people know from elsewhere:
// shells, Docker, Slurm, gflow, nvidia-smi. Pure; misspellings of gpuman's own words are base::Nearest's.
#pragma once

#include <string>
#include <string_view>

namespace gpuman::cli {

// `path` is the command that got it: "gpuman", "gpuman device". `word` is an argument or an option that it
// does not know. Empty: nothing is known of it.
std::string HintFor(std::string_view path, std::string_view word);

}  // namespace gpuman::cli
