// How far the processes of a job are in a program that all of them execute. Ranks of a training make the same
// calls in the same order, so a rank that has made fewer calls than another since the last cut is behind it
// by so many. When each has made the missing calls, every part of a collective has been launched, and all of
// them come to rest.
//
// Nothing says that a job is such a program. Before the first cut it counts as one where all its processes
// have made nearly as many calls since they began, and then as long as they do so between two cuts.
//
// Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>

#include "base/process.h"

namespace gpuman::share {

using CallsByProcess = std::map<base::ProcessId, std::uint64_t>;  // calls that each has made since it began

struct LockstepTracker {
  // How many calls each had made when all were at the same place of the program, as far as is known.
  CallsByProcess calls_at_cut;
  // How many calls each process was ahead, at the last cuts that were found without Behind. At a cut a
  // process may be anywhere before its next collective, so one cut says little of its place, but the median
  // of several does.
  std::deque<std::map<base::ProcessId, std::int64_t>> ahead{};
  // Where places differ by a few calls only, or nothing is known yet: all processes are taken to have made
  // equally many calls since they began. False: the places that `ahead` gives are tried, since equal counts
  // did not lead to a cut.
  bool assumes_equal = true;
  // The processes have made equally many calls between the last two cuts, as ranks of one program do.
  bool holds = false;
  // Calls as Behind says were enough for a cut, so `calls_at_cut` is right. `misses`: in how many cuts in a
  // row they have not been enough since.
  bool proven = false;
  unsigned misses = 0;
  // In how many cuts in a row Behind did not help, and in how many it therefore says nothing.
  unsigned failures = 0, pause = 0;
  // How long a cut usually takes that needs calls, where Behind is not asked. 0: not known.
  std::chrono::nanoseconds usual{};

  // Returns how many calls each process is behind the one that is furthest. Empty: not known.
  std::map<base::ProcessId, unsigned> Behind(const CallsByProcess& now) const;
  // How a cut was found: no calls were needed; calls as Behind says were enough, or not; or without Behind.
  enum class Way { kNoCalls, kAligned, kAlignedAndMore, kWithout };
  void LearnCut(const CallsByProcess& now, Way way, std::chrono::nanoseconds took);
  // Call when what Behind said did not help. One such time may be chance.
  void Doubt();

 private:
  // The places that Behind compares with; empty where nothing is known.
  CallsByProcess Assumed(const CallsByProcess& now) const;
  CallsByProcess SamePlace(const CallsByProcess& now) const;
};

}  // namespace gpuman::share
