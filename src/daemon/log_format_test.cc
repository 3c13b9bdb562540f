#include "daemon/log_format.h"

#include <gtest/gtest.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>

#include <memory>
#include <sstream>

namespace gpuman::daemon {
namespace {

TEST(LogFormat, AMessageIsOneLineWhateverItSays) {
  std::ostringstream out;
  spdlog::logger log("test", std::make_shared<spdlog::sinks::ostream_sink_st>(out));
  log.set_formatter(MakeLogFormatter("%l: %v"));
  log.warn("process 7 (a\ninfo: stopping; jobs go on\x1b[2K)");
  log.info("job 1 (m\xc3\xbc\xe2\x80\xaexe.\xff): {}", "started\r");
  EXPECT_EQ(out.str(),
            "warning: process 7 (a\\ninfo: stopping; jobs go on\\x1b[2K)\n"
            "info: job 1 (m\xc3\xbc\\u202exe.\\xff): started\\x0d\n");
}

TEST(LogFormat, PrintableTextStaysAsItIs) {
  EXPECT_EQ(EscapedForLog("train.py --name \"\xe6\xa8\xa1\" \\n"), "train.py --name \"\xe6\xa8\xa1\" \\n");
  EXPECT_EQ(EscapedForLog("a\tb\x7f\xc2\x9b"), "a\\tb\\x7f\\u009b");
  EXPECT_EQ(EscapedForLog("\xf3\xa0\x80\x81"), "\\U000e0001");
}

}  // namespace
}  // namespace gpuman::daemon
