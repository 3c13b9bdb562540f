#include "cli/top/watch.h"

#include <variant>

#include "base/clock.h"
#include "base/overloaded.h"
#include "cli/top/daemon_caller.h"
#include "cli/top/frame.h"
#include "cli/top/update.h"

namespace gpuman::cli::top {
namespace {

constexpr int kWheelRows = 3;

// What an input means on the picture that is shown; nullopt: nothing.
std::optional<Event> EventOf(const Screen::Input& input, const Picture& picture) {
  return std::visit(base::Overloaded{[](const Key& key) -> std::optional<Event> { return key; },
                                     [](const Resized& resized) -> std::optional<Event> { return resized; },
                                     [&](const MouseEvent& sign) -> std::optional<Event> {
                                       switch (sign.kind) {
                                         case MouseEvent::Kind::kWheelUp:
                                           return Wheel{-kWheelRows};
                                         case MouseEvent::Kind::kWheelDown:
                                           return Wheel{kWheelRows};
                                         case MouseEvent::Kind::kPress:
                                           if (const auto target = picture.At(sign.column, sign.row))
                                             return Click{*target};
                                           return std::nullopt;
                                         case MouseEvent::Kind::kOther:
                                           return std::nullopt;
                                       }
                                       return std::nullopt;
                                     }},
                    input);
}

class Loop {
 public:
  Loop(State state, Screen& screen, DaemonCaller& asker)
      : state_(std::move(state)), screen_(screen), asker_(asker) {}

  void Run() {
    const base::SystemClock clock;
    while (!quit_ && screen_.signal() == 0) {
      Take(Tick{clock.Mono()});
      picture_ = Draw(state_);
      screen_.Show(picture_);
      for (const auto& input : screen_.Wait(NextTick(state_), asker_.fd()))
        if (auto event = EventOf(input, picture_)) Take(std::move(*event));
      for (auto& answer : asker_.Take()) Take(std::move(answer));
    }
  }
  void Take(Event event) {
    for (const auto& effect : Update(state_, std::move(event)))
      std::visit(
          base::Overloaded{[&](const Quit&) { quit_ = true; }, [&](const auto& ask) { asker_.Ask(ask); }},
          effect);
  }

 private:
  State state_;
  Screen& screen_;
  DaemonCaller& asker_;
  Picture picture_;
  bool quit_ = false;
};

}  // namespace

base::Result<int> Watch(const std::filesystem::path& socket, State state, Snapshot first,
                        const ScreenOptions& options) {
  DaemonCaller asker(socket);  // ends after the screen: the terminal is restored at once
  GPUMAN_ASSIGN(const auto screen, Screen::Open(options));
  state.asked_at = base::SystemClock().Mono();
  Loop loop(std::move(state), *screen, asker);
  loop.Take(Resized{screen->size()});
  loop.Take(StatusCame{std::move(first)});
  loop.Run();
  return screen->signal() == 0 ? 0 : 128 + screen->signal();
}

}  // namespace gpuman::cli::top
