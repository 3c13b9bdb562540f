#include "cli/top_screen.h"

#include <langinfo.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstdint>
#include <cstdio>
#include <cstring>

// The macros of ncurses use common words, so its header comes last.
#define NCURSES_NOMACROS 1
#include <curses.h>

namespace gpuman::cli {
namespace {

constexpr int kEscapeDelay = 25;  // ms for the rest of a key's sequence
constexpr int kEscape = 27;

// ncurses writes UTF-8 only where the locale is UTF-8.
void ChooseLocale() {
  std::setlocale(LC_ALL, "");
  if (std::strcmp(::nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");
}

// A dumb terminal cannot move its cursor, but ncurses accepts it.
bool MovesItsCursor() {
  const char* const move = ::tigetstr("cup");
  return move != nullptr && reinterpret_cast<std::intptr_t>(move) != -1;
}

attr_t AttributesOf(Color color, bool colored) {
  if (color == Color::kBold) return A_BOLD;
  if (color == Color::kDim) return A_DIM;
  if (color == Color::kNone || !colored) return A_NORMAL;
  return static_cast<attr_t>(COLOR_PAIR(static_cast<int>(color)));
}

void BeginColors() {
  ::start_color();
  ::use_default_colors();
  ::init_pair(static_cast<short>(Color::kRed), COLOR_RED, -1);
  ::init_pair(static_cast<short>(Color::kGreen), COLOR_GREEN, -1);
  ::init_pair(static_cast<short>(Color::kYellow), COLOR_YELLOW, -1);
  ::init_pair(static_cast<short>(Color::kCyan), COLOR_CYAN, -1);
}

TopKey KeyOf(int key) {
  switch (key) {
    case 'q':
    case kEscape:
      return TopKey::kQuit;
    case ' ':
    case 'r':
      return TopKey::kRefresh;
    case 'h':
    case '?':
      return TopKey::kHelp;
    case 'm':
      return TopKey::kMemory;
    case 'u':
      return TopKey::kUser;
    case 'j':
      return TopKey::kJob;
    case 'p':
      return TopKey::kPid;
    case KEY_UP:
      return TopKey::kUp;
    case KEY_DOWN:
      return TopKey::kDown;
    case KEY_PPAGE:
      return TopKey::kPageUp;
    case KEY_NPAGE:
      return TopKey::kPageDown;
    case ERR:
    case KEY_RESIZE:
      return TopKey::kNone;
    default:
      return TopKey::kOther;
  }
}

int MillisUntil(base::MonoTime until) {
  const auto left = std::chrono::ceil<base::Millis>(until - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

}  // namespace

TopScreen::TopScreen(bool color) : signals_{SIGINT, SIGTERM, SIGHUP, SIGQUIT}, color_(color) {}

base::Result<std::unique_ptr<TopScreen>> TopScreen::Open(bool color) {
  ChooseLocale();
  std::unique_ptr<TopScreen> screen(new TopScreen(color));
  SCREEN* const terminal = ::newterm(nullptr, stdout, stdin);
  screen->terminal_ = terminal;
  if (terminal) ::set_term(terminal);
  if (!terminal || !MovesItsCursor())
    return base::Fail(base::ErrorCode::kNotSupported, "gpuman top cannot draw on this terminal",
                      "set TERM to the kind of the terminal, or use gpuman top --once");
  ::set_escdelay(kEscapeDelay);
  ::cbreak();
  ::noecho();
  ::nodelay(stdscr, TRUE);
  ::keypad(stdscr, TRUE);
  ::curs_set(0);
  screen->color_ = color && ::has_colors();
  if (screen->color_) BeginColors();
  return screen;
}

TopScreen::~TopScreen() {
  if (!terminal_) return;
  ::endwin();
  ::delscreen(static_cast<SCREEN*>(terminal_));
}

TopSize TopScreen::size() const {
  TopSize size;
  size.columns = static_cast<std::size_t>(std::max(::getmaxx(stdscr), 1));
  size.rows = static_cast<std::size_t>(std::max(::getmaxy(stdscr), 1));
  return size;
}

void TopScreen::Show(const std::vector<TopLine>& lines) {
  ::werase(stdscr);
  int row = 0;
  for (const auto& line : lines) {
    ::wattrset(stdscr, static_cast<int>(AttributesOf(line.color, color_)));
    ::mvwaddstr(stdscr, row++, 0, Printable(line.text).c_str());
  }
  ::wattrset(stdscr, A_NORMAL);
  ::wrefresh(stdscr);
}

TopKey TopScreen::Wait(base::MonoTime until) {
  int key = ::wgetch(stdscr);  // a key that came together with the last one
  if (key == ERR) {
    pollfd waiting[] = {{STDIN_FILENO, POLLIN, 0}, {signals_.fd(), POLLIN, 0}};
    // A change of the window's size interrupts poll, and is the next key.
    if (::poll(waiting, 2, MillisUntil(until)) < 0 && errno != EINTR) return TopKey::kQuit;
    if (const int signal = signals_.Take()) {
      signal_ = signal;
      return TopKey::kQuit;
    }
    key = ::wgetch(stdscr);
    // The terminal is gone.
    if (key == ERR && waiting[0].revents != 0) return TopKey::kQuit;
  }
  return KeyOf(key);
}

}  // namespace gpuman::cli
