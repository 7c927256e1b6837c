// What long work is at: one line on standard error that is written over, on a terminal only.
#pragma once

#include <string_view>

namespace ferry::command {

class progress {  // takes its line back when it ends
 public:
  progress();
  progress(progress const&) = delete;
  progress& operator=(progress const&) = delete;
  ~progress();

  void show(std::string_view what);
  void clear();

 private:
  bool terminal_;
  bool shown_ = false;
};

}  // namespace ferry::command
