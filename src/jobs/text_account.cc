#include "jobs/text_account.h"

namespace gpuman::jobs {
namespace {

constexpr std::uint64_t kPerText = sizeof(std::string);

std::uint64_t Count(const std::string& text) { return kPerText + text.size(); }

template <typename T>
base::Bytes SizeUnlessNull(const T* value) {
  return value ? SizeOf(*value) : base::Bytes{};
}

}  // namespace

base::Bytes SizeOf(const std::vector<std::string>& texts) {
  std::uint64_t size = 0;
  for (const auto& text : texts) size += Count(text);
  return {size};
}

base::Bytes SizeOf(const Variables& variables) {
  std::uint64_t size = 0;
  for (const auto& [name, value] : variables) size += Count(name) + Count(value);
  return {size};
}

base::Bytes SizeOf(const spec::JobSpec& spec) {
  std::uint64_t size = spec.depends.list.size() * sizeof(spec::Dependency);
  size += Count(spec.script) + spec.retries.on_exit_codes.size() * sizeof(int);
  spec::ForEachText(spec, [&](const std::string& text) { size += Count(text); });
  for (const auto* const list : {&spec.gpus.devices, &spec.notify.webhooks, &spec.notify.mails})
    for (const auto& text : *list) size += Count(text);
  return {size};
}

TextAccount::Entry TextAccount::EntryOf(const Job& job) {
  return {{SizeOf(job.command).count + job.directory->size()},
          job.environment.pointer().get(),
          job.spec.pointer().get()};
}

template <typename T>
void TextAccount::AddShared(const T* value) {
  if (!value) return;
  Text& text = shared_[value];
  if (++text.jobs > 1) return;
  text.size = SizeOf(*value);
  bytes_.count += text.size.count;
}

void TextAccount::RemoveShared(const void* value) {
  const auto it = shared_.find(value);
  if (it == shared_.end() || --it->second.jobs > 0) return;
  bytes_.count -= it->second.size.count;
  shared_.erase(it);
}

void TextAccount::Add(const Entry& entry) {
  bytes_.count += entry.own.count;
  AddShared(entry.environment);
  AddShared(entry.spec);
}

void TextAccount::Remove(const Entry& entry) {
  bytes_.count -= entry.own.count;
  RemoveShared(entry.environment);
  RemoveShared(entry.spec);
}

base::Bytes TextAccount::More(const Entry& entry) const {
  std::uint64_t more = entry.own.count;
  if (!shared_.contains(entry.environment)) more += SizeUnlessNull(entry.environment).count;
  if (!shared_.contains(entry.spec)) more += SizeUnlessNull(entry.spec).count;
  return {more};
}

}  // namespace gpuman::jobs
