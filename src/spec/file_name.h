// The names of files for a job's input and output, with placeholders. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpuman::spec {

// What the placeholders stand for.
struct FileNameWords {
  std::int64_t job = 0;
  std::optional<std::int64_t> array{};  // absent: the job is no task of an array
  std::int64_t task = 0;
  std::string_view name{};
};

// Replaces %j by the job's id, %A by the array's id (of a job without one: its own), %a by the task, %x by
// the name, %% by a %. Other placeholders stay.
std::string ExpandFileName(std::string_view pattern, const FileNameWords& words);

}  // namespace gpuman::spec
