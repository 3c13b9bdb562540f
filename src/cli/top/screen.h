// The terminal of `gpuman top`: shows pictures, and waits for keys and the mouse. A small wrapper of ncurses,
// which knows terminals and draws only what has changed.
//
// A process can have one Screen at a time, as ncurses requires. The terminal is as it was before while the
// program is stopped (SIGTSTP), and when it ends: by the destructor, and by a signal of a fault. Not
// thread-safe; other threads of the program must block all signals.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/signal_watch.h"
#include "cli/top/mouse.h"
#include "cli/top/picture.h"
#include "cli/top/update.h"

namespace gpuman::cli::top {

struct ScreenOptions {
  bool color = true;
  bool mouse = true;
};

class Screen {
 public:
  using Input = std::variant<Key, MouseEvent, Resized>;

  // kNotSupported: this terminal cannot place text.
  static base::Result<std::unique_ptr<Screen>> Open(const ScreenOptions& options);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  Size size() const;
  void Show(const Picture& picture);
  // Sleeps until there is input, `wake` is readable, a signal comes, or `until`. Returns what there is.
  std::vector<Input> Wait(base::MonoTime until, int wake);
  // The signal that asked the program to end, SIGHUP also where the terminal is gone; 0: none.
  int signal() const { return signal_; }

 private:
  explicit Screen(const ScreenOptions& options);

  void Enter();
  void Leave();
  void Stop();
  void Obey(int signal, std::vector<Input>& inputs);
  // Takes all keys that there are; false: there was none.
  bool TakeKeys(std::vector<Input>& inputs);

  SignalWatch signals_;
  ScreenOptions options_;
  MouseReader mouse_;
  void* terminal_ = nullptr;  // ncurses' SCREEN
  bool entered_ = false;
  int signal_ = 0;
};

}  // namespace gpuman::cli::top
