#include "jobs/job.h"

#include "spec/json.h"

namespace gpuman::jobs {

std::size_t JobSpecHash::operator()(const spec::JobSpec& spec) const {
  return std::hash<std::string>()(spec::Serialize(spec));
}

}  // namespace gpuman::jobs
