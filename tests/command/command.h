// The built command in a directory of its own for every test.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace flashtile::cli {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

inline const std::string kLayer = FLASHTILE_SOURCE_DIR "/examples/data/minilm_layer.safetensors";

inline std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Result {
  int status = -1;
  std::string out, err;
};

/// A directory of its own for every test.
class Command : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/flashtile-command-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name) const { return directory_ + "/" + name; }

  /// Runs the command with these words, which the shell splits; `environment` stands before it.
  Result run(const std::string& words, const std::string& environment = "") const {
    const std::string line = environment + " '" FLASHTILE_BINARY_DIR "/flashtile' " + words + " > '" + path("stdout") +
                             "' 2> '" + path("stderr") + "'";
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(path("stdout")), contents(path("stderr"))};
  }

  json run_json(const std::string& words, int expected_status = 0) const {
    const Result r = run(words + " --json");
    EXPECT_EQ(r.status, expected_status) << r.err;
    return json::parse(r.out);
  }

  /// Wrong use: exit status 2, nothing on standard output, one line that starts like this and says what is allowed.
  void expect_wrong(const std::string& words, const std::string& start, const std::string& allowed) const {
    const Result r = run(words);
    EXPECT_EQ(r.status, 2) << words;
    EXPECT_EQ(r.out, "") << words;
    EXPECT_THAT(r.err, StartsWith("flashtile: " + start)) << words;
    EXPECT_THAT(r.err, HasSubstr(allowed)) << words;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  }

 private:
  std::string directory_;
};

}  // namespace flashtile::cli
