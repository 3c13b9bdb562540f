// cuGetProcAddress: which name, version and flag gives which function. A shim replaces its answers, so the
// shim must keep every rule here.

#include <set>

#include "conformance.h"
#include "driver/abi/test_twin.h"
#include "probe.h"

namespace gpuman::conformance {
namespace {

using ::testing::IsEmpty;

struct Answer {
  abi::CUresult result = kMissing;
  void* function = nullptr;
  int status = -1;
};

Answer Ask(const std::string& name, int version, abi::cuuint64_t flags) {
  Answer answer;
  auto status = static_cast<abi::CUdriverProcAddressQueryResult>(99);
  answer.result = CU(cuGetProcAddress_v2, name.c_str(), &answer.function, version, flags, &status);
  answer.status = static_cast<int>(status);
  return answer;
}

int DriverVersion() {
  int version = 0;
  EXPECT_OK(CU(cuDriverGetVersion, &version));
  return version;
}

class ProcAddress : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(CU(cuInit, 0u)); }
};

std::string Line(const abi::CudaFunction& row) {
  return std::string(row.symbol) + "@" + std::to_string(row.version);
}

TEST_F(ProcAddress, EachVersionAnswersItsOwnSymbol) {
  std::vector<std::string> missing, other;
  for (const auto& row : abi::kCudaFunctions) {
    if (row.version > DriverVersion()) continue;
    void* exported = Cuda().Symbol(std::string(row.symbol));
    const auto answer = Ask(std::string(row.name), row.version, abi::CU_GET_PROC_ADDRESS_DEFAULT);
    if (answer.result != abi::CUDA_SUCCESS || !answer.function)
      missing.push_back(Line(row) + (exported ? " (exported)" : " (not exported)"));
    else if (answer.function != exported)
      other.push_back(Line(row));
  }
  EXPECT_THAT(missing, IsEmpty());
  EXPECT_THAT(other, IsEmpty());
}

TEST_F(ProcAddress, TheLegacyFlagIsTheDefault) {
  std::vector<std::string> different;
  for (const auto& row : abi::kCudaFunctions) {
    if (row.version > DriverVersion()) continue;
    const std::string name(row.name);
    if (Ask(name, row.version, abi::CU_GET_PROC_ADDRESS_LEGACY_STREAM).function !=
        Ask(name, row.version, abi::CU_GET_PROC_ADDRESS_DEFAULT).function)
      different.push_back(Line(row));
  }
  EXPECT_THAT(different, IsEmpty());
}

TEST_F(ProcAddress, ThePerThreadFlagAnswersTheTwin) {
  std::vector<std::string> wrong;
  for (const auto& row : abi::kCudaFunctions) {
    const int version = std::max(row.version, abi::kFirstTwinVersion);
    if (version > DriverVersion()) continue;
    const auto answer =
        Ask(std::string(row.name), version, abi::CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    // A newer version does not get an old symbol.
    const auto plain = Ask(std::string(row.name), version, abi::CU_GET_PROC_ADDRESS_DEFAULT);
    if (plain.function != Cuda().Symbol(std::string(row.symbol))) continue;
    void* twin = Cuda().Symbol(std::string(row.symbol) + std::string(TwinSuffix(row.twin)));
    if (answer.function != twin || (row.twin != abi::PerThreadStreamSuffix::kNone && twin == plain.function))
      wrong.push_back(Line(row) + std::string(TwinSuffix(row.twin)));
  }
  EXPECT_THAT(wrong, IsEmpty());
}

TEST_F(ProcAddress, AVersionBeforeTheFirstIsNotSufficient) {
  std::set<std::string_view> seen;
  std::set<std::string> results;
  std::vector<std::string> wrong;
  for (const auto& row : abi::kCudaFunctions) {
    // Before 4000 there were older functions of the same names, which the table does not list.
    if (!seen.insert(row.name).second || row.version <= 4000 || row.version > DriverVersion()) continue;
    const auto answer = Ask(std::string(row.name), row.version - 10, abi::CU_GET_PROC_ADDRESS_DEFAULT);
    results.insert(CudaErrorName(answer.result));
    if (answer.function || answer.status != abi::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT)
      wrong.push_back(Line(row) + " -> " + CudaErrorName(answer.result) + ", status " +
                      std::to_string(answer.status) + (answer.function ? ", a function" : ""));
  }
  for (const auto& result : results) Fact("proc_address.too_old." + result, "seen");
  EXPECT_THAT(results, ::testing::SizeIs(1)) << "one rule for all names";
  EXPECT_THAT(wrong, IsEmpty());
}

TEST_F(ProcAddress, UnknownNamesAreNotFound) {
  for (const char* name : {"cuNoSuchFunction", "", "cuMemAllo", "cuMemAllocX"}) {
    const auto answer = Ask(name, 12000, 0);
    Fact(std::string("proc_address.unknown.") + name,
         CudaErrorName(answer.result) + ", status " + std::to_string(answer.status));
    EXPECT_EQ(answer.function, nullptr) << name;
    EXPECT_EQ(answer.status, abi::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND) << name;
  }
}

PROBE(proc_address_null_name) {
  void* function = nullptr;
  abi::CUdriverProcAddressQueryResult status{};
  Say("result", CudaErrorName(CU(cuGetProcAddress_v2, nullptr, &function, 12000, 0u, &status)));
}
PROBE(proc_address_null_function) {
  abi::CUdriverProcAddressQueryResult status{};
  Say("result", CudaErrorName(CU(cuGetProcAddress_v2, "cuInit", nullptr, 12000, 0u, &status)));
}
PROBE(proc_address_null_status) {
  void* function = nullptr;
  Say("result", CudaErrorName(CU(cuGetProcAddress_v2, "cuInit", &function, 12000, 0u, nullptr)));
}

TEST_F(ProcAddress, OddQuestionsGetTheDriversAnswers) {
  // The real driver crashes in one of these.
  for (const char* name :
       {"proc_address_null_name", "proc_address_null_function", "proc_address_null_status"}) {
    Probe probe(name);
    Fact(name, probe.Heard("result"));
  }
  const auto fact = [](const char* key, const Answer& answer) {
    Fact(std::string("proc_address.") + key, CudaErrorName(answer.result) + ", status " +
                                                 std::to_string(answer.status) +
                                                 (answer.function ? ", a function" : ", null"));
  };
  fact("suffixed_name", Ask("cuMemAlloc_v2", 12000, 0));
  fact("suffixed_twin", Ask("cuMemcpy_ptds", 12000, 0));
  fact("flags_3", Ask("cuMemcpy", 12000, 3));
  fact("flags_4", Ask("cuMemcpy", 12000, 4));
  fact("version_0", Ask("cuMemAlloc", 0, 0));
  fact("version_negative", Ask("cuMemAlloc", -1, 0));
  fact("version_2000_of_cuMemAlloc", Ask("cuMemAlloc", 2000, 0));
  fact("version_99000", Ask("cuMemAlloc", 99000, 0));
  fact("version_above_the_driver", Ask("cuMemAlloc", DriverVersion() + 10, 0));
  fact("twin_before_7000", Ask("cuMemcpy", 6050, abi::CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM));
  const auto twin_before = Ask("cuMemcpy", 6050, abi::CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  Fact("proc_address.twin_before_7000_is", twin_before.function == Cuda().Symbol("cuMemcpy") ? "cuMemcpy"
                                           : twin_before.function == Cuda().Symbol("cuMemcpy_ptds")
                                               ? "cuMemcpy_ptds"
                                               : "another");
}

TEST_F(ProcAddress, ItAnswersItselfInBothShapes) {
  const auto old = Ask("cuGetProcAddress", 11030, 0);
  const auto now = Ask("cuGetProcAddress", 12000, 0);
  ASSERT_NE(old.function, nullptr);
  ASSERT_NE(now.function, nullptr);
  EXPECT_NE(old.function, now.function);
  void* found = nullptr;
  const auto four = reinterpret_cast<abi::fn::cuGetProcAddress*>(old.function);
  EXPECT_OK(four("cuMemAlloc", &found, 11030, 0));
  EXPECT_EQ(found, Ask("cuMemAlloc", 11030, 0).function);
  found = &found;
  const auto missing = four("cuNoSuchFunction", &found, 11030, 0);
  Fact("proc_address.v1.unknown", missing);
  // The H200's driver does not change the pointer here.
  Fact("proc_address.v1.unknown_pointer", found == nullptr  ? "null"
                                          : found == &found ? "untouched"
                                                            : "another");
}

}  // namespace
}  // namespace gpuman::conformance
