// The page without its data: what goes before it and what follows. Made from src/report/page/ at build time.
#pragma once

#include <string_view>

namespace tutti::report {

extern const std::string_view kTemplateHead;
extern const std::string_view kTemplateTail;

}  // namespace tutti::report
