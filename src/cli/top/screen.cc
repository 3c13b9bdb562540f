#include "cli/top/screen.h"

#include <langinfo.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <clocale>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "cli/text.h"
#include "cli/top/palette.h"

// The macros of ncurses use common words, so its header comes last.
#define NCURSES_NOMACROS 1
#include <curses.h>

namespace gpuman::cli::top {
namespace {

constexpr int kEscapeDelay = 50;  // ms for the rest of a key's sequence
constexpr wint_t kEscape = 27, kDelete = 127;
constexpr int kMouseKey = KEY_MAX + 1, kBackTabKey = KEY_BTAB;
constexpr std::string_view kMouseOn = "\033[?1000h\033[?1006h", kMouseOff = "\033[?1006l\033[?1000l";

void WriteToTerminal(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

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

short PairOf(const InkColor& color) { return static_cast<short>(&color - kInkColors.data() + 1); }

void BeginColors() {
  constexpr int kMany = 256;
  ::start_color();
  ::use_default_colors();
  for (const auto& color : kInkColors)
    ::init_pair(PairOf(color), COLORS >= kMany ? color.of_256 : static_cast<short>(color.of_8), -1);
}

attr_t WeightOf(Ink ink) {
  switch (ink) {
    case Ink::kTitle:
    case Ink::kBad:
      return A_BOLD;
    case Ink::kDim:
      return A_DIM;
    case Ink::kChosen:
      return A_REVERSE;
    default:
      return A_NORMAL;
  }
}

attr_t AttributesOf(Ink ink, bool colored) {
  const auto color =
      std::find_if(kInkColors.begin(), kInkColors.end(), [&](const InkColor& c) { return c.ink == ink; });
  if (!colored || color == kInkColors.end()) return WeightOf(ink);
  return WeightOf(ink) | static_cast<attr_t>(COLOR_PAIR(PairOf(*color)));
}

std::string Utf8Of(wint_t code) {
  std::string text;
  const auto byte = [&](wint_t bits) { text += static_cast<char>(bits); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0 | (code >> 6));
    byte(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    byte(0xE0 | (code >> 12));
    byte(0x80 | ((code >> 6) & 0x3F));
    byte(0x80 | (code & 0x3F));
  } else {
    byte(0xF0 | (code >> 18));
    byte(0x80 | ((code >> 12) & 0x3F));
    byte(0x80 | ((code >> 6) & 0x3F));
    byte(0x80 | (code & 0x3F));
  }
  return text;
}

Key KeyOfFunction(wint_t code) {
  using Code = Key::Code;
  switch (static_cast<int>(code)) {
    case KEY_UP:
      return {Code::kUp};
    case KEY_DOWN:
      return {Code::kDown};
    case KEY_LEFT:
      return {Code::kLeft};
    case KEY_RIGHT:
      return {Code::kRight};
    case KEY_PPAGE:
      return {Code::kPageUp};
    case KEY_NPAGE:
      return {Code::kPageDown};
    case KEY_HOME:
    case KEY_FIND:  // as tmux and some terminals say it
      return {Code::kHome};
    case KEY_END:
    case KEY_SELECT:
      return {Code::kEnd};
    case KEY_ENTER:
      return {Code::kEnter};
    case KEY_BACKSPACE:
      return {Code::kBackspace};
    case kBackTabKey:
      return {Code::kBackTab};
    default:
      return {Code::kOther};
  }
}

Key KeyOfCharacter(wint_t code) {
  using Code = Key::Code;
  switch (code) {
    case '\n':
    case '\r':
      return {Code::kEnter};
    case '\t':
      return {Code::kTab};
    case '\b':
    case kDelete:
      return {Code::kBackspace};
    case kEscape:
      return {Code::kEscape};
    default:
      return code < ' ' ? Key{Code::kOther} : Key{Code::kCharacter, Utf8Of(code)};
  }
}

int MillisUntil(base::MonoTime until) {
  const auto left = std::chrono::ceil<base::Millis>(until - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

// A signal of a fault ends the program before any destructor. These are for its handler alone.
constexpr std::array kFaults{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
termios modes_before{};

void RestoreAtFault(int signal) {
  constexpr std::string_view kRestore = "\033[?1006l\033[?1000l\033[?25h\033[m\033[?1049l\033[?1l\033>";
  [[maybe_unused]] const auto written = ::write(STDOUT_FILENO, kRestore.data(), kRestore.size());
  ::tcsetattr(STDIN_FILENO, TCSANOW, &modes_before);
  ::raise(signal);  // now with its usual effect: SA_RESETHAND
}

void WatchFaults() {
  if (::tcgetattr(STDIN_FILENO, &modes_before) != 0) return;
  struct sigaction action {};
  action.sa_handler = RestoreAtFault;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  for (const int signal : kFaults) ::sigaction(signal, &action, nullptr);
}

void UnwatchFaults() {
  for (const int fault : kFaults) ::signal(fault, SIG_DFL);
}

}  // namespace

Screen::Screen(const ScreenOptions& options)
    : signals_{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH}, options_(options) {}

base::Result<std::unique_ptr<Screen>> Screen::Open(const ScreenOptions& options) {
  ChooseLocale();
  std::unique_ptr<Screen> screen(new Screen(options));
  WatchFaults();
  SCREEN* const terminal = ::newterm(nullptr, stdout, stdin);
  screen->terminal_ = terminal;
  if (terminal) ::set_term(terminal);
  if (!terminal || !MovesItsCursor())
    return base::Fail(base::ErrorCode::kNotSupported, "gpuman top cannot draw on this terminal",
                      "set TERM to the kind of the terminal, or use gpuman top --once");
  ::set_escdelay(kEscapeDelay);
  ::cbreak();
  ::noecho();
  ::nonl();
  ::nodelay(stdscr, TRUE);
  ::keypad(stdscr, TRUE);
  ::define_key("\033[<", kMouseKey);
  screen->options_.color = options.color && ::has_colors();
  if (screen->options_.color) BeginColors();
  screen->Enter();
  return screen;
}

Screen::~Screen() {
  if (terminal_) {
    if (entered_) Leave();
    ::endwin();
    ::delscreen(static_cast<SCREEN*>(terminal_));
  }
  UnwatchFaults();
}

void Screen::Enter() {
  entered_ = true;
  ::wrefresh(stdscr);
  ::curs_set(0);
  if (options_.mouse) WriteToTerminal(kMouseOn);
}

void Screen::Leave() {
  if (options_.mouse) WriteToTerminal(kMouseOff);
  ::endwin();
}

// As SIGTSTP does to any program, which goes on here after SIGCONT.
void Screen::Stop() {
  Leave();
  struct sigaction usual {
  }, before{};
  usual.sa_handler = SIG_DFL;
  ::sigaction(SIGTSTP, &usual, &before);
  sigset_t stops;
  ::sigemptyset(&stops);
  ::sigaddset(&stops, SIGTSTP);
  ::pthread_sigmask(SIG_UNBLOCK, &stops, nullptr);
  ::raise(SIGTSTP);
  ::pthread_sigmask(SIG_BLOCK, &stops, nullptr);
  ::sigaction(SIGTSTP, &before, nullptr);
}

Size Screen::size() const {
  return {static_cast<std::size_t>(std::max(::getmaxx(stdscr), 1)),
          static_cast<std::size_t>(std::max(::getmaxy(stdscr), 1))};
}

void Screen::Show(const Picture& picture) {
  ::werase(stdscr);
  int row = 0;
  for (const auto& line : picture.lines) {
    std::size_t column = 0;
    for (const auto& span : line.spans()) {
      ::wattrset(stdscr, static_cast<int>(AttributesOf(span.ink, options_.color)));
      // Each span has its own place, so that no character can move what follows it.
      ::mvwaddstr(stdscr, row, static_cast<int>(column), span.text.c_str());
      column += Width(span.text);
    }
    ++row;
  }
  ::wattrset(stdscr, A_NORMAL);
  ::wrefresh(stdscr);
}

void Screen::Obey(int signal, std::vector<Input>& inputs) {
  switch (signal) {
    case SIGTSTP:
      Stop();
      [[fallthrough]];
    case SIGCONT:
      ::clearok(curscr, TRUE);
      Enter();
      [[fallthrough]];
    case SIGWINCH: {
      winsize size{};
      if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
        ::resizeterm(size.ws_row, size.ws_col);
      inputs.emplace_back(Resized{this->size()});
      break;
    }
    default:
      signal_ = signal;
  }
}

bool Screen::TakeKeys(std::vector<Input>& inputs) {
  bool any = false;
  wint_t code = 0;
  for (int kind = ::wget_wch(stdscr, &code); kind != ERR; kind = ::wget_wch(stdscr, &code)) {
    any = true;
    if (kind == KEY_CODE_YES && static_cast<int>(code) == kMouseKey) {
      mouse_.Begin();
    } else if (kind != KEY_CODE_YES && mouse_.reading()) {
      if (const auto sign = mouse_.Feed(static_cast<char>(code < 0x80 ? code : '?')))
        inputs.emplace_back(*sign);
    } else if (kind != KEY_CODE_YES || static_cast<int>(code) != KEY_RESIZE) {
      inputs.emplace_back(kind == KEY_CODE_YES ? KeyOfFunction(code) : KeyOfCharacter(code));
    }
  }
  return any;
}

std::vector<Screen::Input> Screen::Wait(base::MonoTime until, int wake) {
  std::vector<Input> inputs;
  if (TakeKeys(inputs)) return inputs;  // keys that came together with the last ones
  std::array<pollfd, 3> waiting{{{STDIN_FILENO, POLLIN, 0}, {signals_.fd(), POLLIN, 0}, {wake, POLLIN, 0}}};
  const int ready = ::poll(waiting.data(), waiting.size(), MillisUntil(until));
  if (ready < 0 && errno != EINTR) signal_ = SIGHUP;
  while (const int signal = signals_.Take()) Obey(signal, inputs);
  // Nothing can be read though the descriptor says so: the terminal is gone.
  if (!TakeKeys(inputs) && ready > 0 && waiting[0].revents != 0 && inputs.empty()) signal_ = SIGHUP;
  return inputs;
}

}  // namespace gpuman::cli::top
