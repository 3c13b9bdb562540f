// Scripts with options in them:
//
//   #!/bin/bash
//   # GPUMAN --gpus 2 --time 4h
//   python train.py
//
// Lines of "# GPUMAN" (or "#GPUMAN") count before the first command; lines of another dialect may count
// anywhere. A "#" that begins a word ends the options of a line. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/queue/command_dialect.h"

namespace gpuman::cli::queue {

struct Directive {
  int line = 0;  // 1 is the first
  const CommandDialect* dialect = &kGpuman;
  std::vector<std::string> words;
};

struct Directives {
  std::vector<Directive> list;
  std::vector<int> too_late;  // lines below the first command that are ignored
};

// Reads lines of gpuman's dialect and of the others. kInvalidArgument with the line, for a quote that is
// never closed.
base::Result<Directives> ReadDirectives(std::string_view text,
                                        const std::vector<const CommandDialect*>& others);

// Applies the directives in order; an error begins with "NAME:LINE: ".
base::Result<> ApplyDirectives(const Directives& directives, std::string_view name, SubmitSettings& settings,
                               base::WallTime now);

// The words of a line as a shell reads it: quotes and backslashes, no variables. They end where a comment
// begins.
struct ShellWords {
  std::vector<std::string> texts;
  std::vector<std::size_t> begins;  // the position of each word in the line
};
// kInvalidArgument for a quote that is never closed.
base::Result<ShellWords> SplitLine(std::string_view line);

// The position of the first command, behind comments and blank lines; the end of a text without one.
std::size_t FirstCommand(std::string_view text);

// Inserts the line before the first command.
void InsertLine(std::string& script, const std::string& line);

// The name of a script without a file, in errors and notes.
inline constexpr std::string_view kStandardInput = "standard input";

// For users who expect a GPU although the script `name` asks for none; without a name, the job does not.
std::string NoteOfNoGpu(std::string_view name = {});

// Whether a text is a program for a shell: its first line names a shell, or no interpreter.
bool IsShellScript(std::string_view text);

}  // namespace gpuman::cli::queue
