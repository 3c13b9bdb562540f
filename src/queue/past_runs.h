// The last runs of each user and name, for queue/memory_estimate.h.
//
// The number of names is bounded: a user with more than kNamesOfUser loses the name that ran least lately,
// and where all users together have more than kNames, so does the user who has the most names. So nobody
// loses a name because of another user who has more. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "queue/memory_estimate.h"

namespace gpuman::queue {

class PastRuns {
 public:
  static constexpr std::size_t kNamesOfUser = 500;
  static constexpr std::size_t kNames = 5'000;
  static constexpr std::size_t kLongestName = 255;  // bytes; runs with a longer name are not kept

  // Runs may come in any order, and more than once.
  void Add(const std::string& user, const std::string& name, const PastRun& run);
  // The oldest first; at most kPastRuns.
  const std::vector<PastRun>& Of(const std::string& user, const std::string& name) const;
  std::size_t names() const { return names_; }

 private:
  using Runs = std::vector<PastRun>;  // by their ends; never empty
  using Names = std::map<std::string, Runs>;
  void Shorten(Names& names);
  // Makes room for a name of this user.
  void MakeRoom(Names& names);

  std::map<std::string, Names> users_;
  std::size_t names_ = 0;
};

}  // namespace gpuman::queue
