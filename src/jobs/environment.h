// The environment that a job was submitted with. Jobs of one shell mostly share theirs, and a daemon keeps
// hundreds of jobs: so it is immutable, copies share it, and equal ones are made one.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace gpuman::jobs {

class Environment {
 public:
  using Variables = std::map<std::string, std::string>;

  Environment() : Environment(Variables()) {}
  Environment(std::initializer_list<Variables::value_type> variables) : Environment(Variables(variables)) {}
  explicit Environment(Variables variables)
      : variables_(std::make_shared<const Variables>(std::move(variables))) {}

  const Variables& variables() const { return *variables_; }
  const std::shared_ptr<const Variables>& pointer() const { return variables_; }
  bool shares_memory_with(const Environment& other) const { return variables_ == other.variables_; }
  friend bool operator==(const Environment& a, const Environment& b) {
    return a.shares_memory_with(b) || *a.variables_ == *b.variables_;
  }

 private:
  friend class EnvironmentPool;
  explicit Environment(std::shared_ptr<const Variables> shared) : variables_(std::move(shared)) {}

  std::shared_ptr<const Variables> variables_;
};

// Keeps nothing alive. Not thread-safe; the environments are.
class EnvironmentPool {
 public:
  // The one that is equal and still in use, else this one, from now on.
  Environment Share(const Environment& environment);

 private:
  std::multimap<std::size_t, std::weak_ptr<const Environment::Variables>> known_;  // by hash
  std::weak_ptr<const Environment::Variables> last_;
};

}  // namespace gpuman::jobs
