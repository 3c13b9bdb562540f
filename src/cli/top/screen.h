// The terminal of `gpuman top`: shows lines and waits for keys. A small wrapper of ncurses.
//
// A process can have one TopScreen at a time, as ncurses requires. The destructor restores the terminal.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/signal_watch.h"
#include "cli/top_frame.h"

namespace gpuman::cli {

enum class TopKey {
  kNone,   // the time is up, or the window has a new size
  kOther,  // a key without a meaning
  kQuit,
  kRefresh,
  kHelp,
  kMemory,
  kUser,
  kJob,
  kPid,
  kUp,
  kDown,
  kPageUp,
  kPageDown,
};

class TopScreen {
 public:
  // kNotSupported: this terminal cannot place text.
  static base::Result<std::unique_ptr<TopScreen>> Open(bool color);
  ~TopScreen();
  TopScreen(const TopScreen&) = delete;
  TopScreen& operator=(const TopScreen&) = delete;

  TopSize size() const;
  void Show(const std::vector<TopLine>& lines);
  // Sleeps until a key, a signal, a new size of the window, or `until`.
  TopKey Wait(base::MonoTime until);
  // The signal that asked the program to end; 0: none.
  int signal() const { return signal_; }

 private:
  explicit TopScreen(bool color);

  SignalWatch signals_;
  void* terminal_ = nullptr;  // ncurses' SCREEN
  bool color_ = false;
  int signal_ = 0;
};

}  // namespace gpuman::cli
