#include "trace/symbols.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/untrusted_file.h"

namespace gpuman::trace {
namespace {

template <typename Function>
bool Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

std::string Demangled(const char* name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = text != nullptr ? text : name;
  std::free(text);
  return result;
}

constexpr off_t kLargest = off_t{8} << 30;  // bytes: more than any program or library has

// The library also unpacks files, to any size: so it gets none that is packed.
bool IsElf(int file) {
  char magic[SELFMAG];
  return ::pread(file, magic, sizeof magic, 0) == SELFMAG && std::memcmp(magic, ELFMAG, SELFMAG) == 0;
}

base::Fd OpenTrusted(const std::string& path) {
  if (!path.starts_with('/')) return {};
  base::Fd file = base::OpenUntrustedFile(path).value_or(base::Fd());
  struct stat status {};
  if (!file.ok() || ::fstat(file.get(), &status) != 0 || status.st_size > kLargest ||
      (status.st_uid != 0 && status.st_uid != ::geteuid()))
    return {};
  struct statfs system {};  // /proc/kcore is a file of root's too
  if (::fstatfs(file.get(), &system) != 0 || system.f_type == PROC_SUPER_MAGIC ||
      system.f_type == SYSFS_MAGIC)
    return {};
  return IsElf(file.get()) ? std::move(file) : base::Fd();
}

}  // namespace

class Symbols::Impl {
 public:
  ~Impl() {
    for (const auto& [path, opened] : opened_)
      if (opened.session != nullptr) library_.end(opened.session);
  }

  void Name(const MappedBinary& module, std::uint64_t address, Frame& frame) {
    const Opened* const open = Open(module);
    if (open == nullptr) return;
    if (const char* const name = NameOf(*open, address)) frame.function = Demangled(name);
    Dwfl_Line* const line = library_.line_of(open->module, address);
    int number = 0;
    const char* const file =
        line != nullptr ? library_.line_info(line, nullptr, &number, nullptr, nullptr, nullptr) : nullptr;
    if (file == nullptr) return;
    frame.file = file;
    frame.line = number;
  }

 private:
  struct Library {
    decltype(&::dwfl_begin) begin = nullptr;
    decltype(&::dwfl_end) end = nullptr;
    decltype(&::dwfl_report_elf) report_elf = nullptr;
    decltype(&::dwfl_report_end) report_end = nullptr;
    decltype(&::dwfl_module_build_id) build_id = nullptr;
    decltype(&::dwfl_module_getsymtab) symbols = nullptr;
    decltype(&::dwfl_module_getsym_info) symbol = nullptr;
    decltype(&::dwfl_module_getsrc) line_of = nullptr;
    decltype(&::dwfl_lineinfo) line_info = nullptr;
    Dwfl_Callbacks callbacks{};
    bool complete = false;
  };

  // It stays loaded as long as the program runs.
  static Library Load() {
    Library library;
    void* const handle = ::dlopen("libdw.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) return library;
    // Of the places where debug information may lie, those of the build id; no server is asked.
    library.complete = Find(handle, "dwfl_begin", library.begin) && Find(handle, "dwfl_end", library.end) &&
                       Find(handle, "dwfl_report_elf", library.report_elf) &&
                       Find(handle, "dwfl_report_end", library.report_end) &&
                       Find(handle, "dwfl_module_build_id", library.build_id) &&
                       Find(handle, "dwfl_module_getsymtab", library.symbols) &&
                       Find(handle, "dwfl_module_getsym_info", library.symbol) &&
                       Find(handle, "dwfl_module_getsrc", library.line_of) &&
                       Find(handle, "dwfl_lineinfo", library.line_info) &&
                       Find(handle, "dwfl_build_id_find_debuginfo", library.callbacks.find_debuginfo) &&
                       Find(handle, "dwfl_offline_section_address", library.callbacks.section_address);
    return library;
  }

  struct Function {
    std::uint64_t begin, size;
    const char* name;  // the library's
  };
  struct Opened {
    Dwfl* session = nullptr;
    Dwfl_Module* module = nullptr;      // null: it has no names for the trace
    std::vector<Function> functions{};  // by their begin
  };

  // The library itself looks through all symbols for each address, and PyTorch's libraries have half a
  // million.
  void ReadFunctions(Opened& opened) {
    const int count = library_.symbols(opened.module);
    for (int i = 1; i < count; ++i) {
      GElf_Sym symbol{};
      GElf_Addr begin = 0;
      const char* const name = library_.symbol(opened.module, i, &symbol, &begin, nullptr, nullptr, nullptr);
      if (name != nullptr && *name != '\0' && GELF_ST_TYPE(symbol.st_info) == STT_FUNC &&
          symbol.st_shndx != SHN_UNDEF && symbol.st_size != 0)
        opened.functions.push_back({begin, symbol.st_size, name});
    }
    std::stable_sort(opened.functions.begin(), opened.functions.end(),
                     [](const Function& a, const Function& b) { return a.begin < b.begin; });
  }

  static const char* NameOf(const Opened& opened, std::uint64_t address) {
    auto at = std::upper_bound(opened.functions.begin(), opened.functions.end(), address,
                               [](std::uint64_t value, const Function& one) { return value < one.begin; });
    constexpr int kNested = 8;
    for (int i = 0; i < kNested && at != opened.functions.begin(); ++i) {
      --at;
      if (address - at->begin < at->size) return at->name;
    }
    return nullptr;
  }

  const Opened* Open(const MappedBinary& module) {
    if (!library_.complete) return nullptr;
    const auto [place, is_new] = opened_.try_emplace({module.path, module.build_id});
    Opened& opened = place->second;
    if (!is_new) return opened.module != nullptr ? &opened : nullptr;
    base::Fd file = OpenTrusted(module.path);
    if (!file.ok()) return nullptr;
    opened.session = library_.begin(&library_.callbacks);
    if (opened.session == nullptr) return nullptr;
    Dwfl_Module* const reported =
        library_.report_elf(opened.session, "module", module.path.c_str(), file.get(), 0, true);
    if (reported == nullptr) return nullptr;
    (void)file.Release();  // the library has it
    library_.report_end(opened.session, nullptr, nullptr);
    const unsigned char* id = nullptr;
    GElf_Addr unused = 0;
    const int bytes = library_.build_id(reported, &id, &unused);
    const std::string own =
        bytes > 0 ? std::string(reinterpret_cast<const char*>(id), static_cast<std::size_t>(bytes)) : "";
    if (own != module.build_id) return nullptr;
    opened.module = reported;
    ReadFunctions(opened);
    return &opened;
  }

  Library library_ = Load();
  std::map<std::pair<std::string, std::string>, Opened> opened_;  // by path and build id
};

Symbols::Symbols() : impl_(std::make_unique<Impl>()) {}
Symbols::~Symbols() = default;

void Symbols::Name(const MappedBinary& module, std::uint64_t address, Frame& frame) {
  impl_->Name(module, address, frame);
}

}  // namespace gpuman::trace
