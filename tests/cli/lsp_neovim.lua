-- What a person does in Neovim, done by a script: lsp_neovim_test.py starts it
-- and reads what it writes.
local out = { steps = {} }
local shown = {}

local function step(name, value)
  out.steps[name] = value
end

local function finish()
  local file = io.open(vim.env.SHARDC_RESULT, "w")
  file:write(vim.fn.json_encode(out))
  file:close()
  vim.cmd("qall!")
end

local function wait(what, condition)
  if not vim.wait(30000, condition, 10) then
    error("waited for " .. what)
  end
end

local function codes()
  local found = {}
  for _, one in ipairs(vim.diagnostic.get(0)) do
    table.insert(found, one.code or one.user_data.lsp.code)
  end
  table.sort(found)
  return found
end

local function cursor_at(word)
  local position = vim.fn.searchpos("\\V" .. word, "w")
  vim.api.nvim_win_set_cursor(0, { position[1], position[2] - 1 })
end

local function ask(method, change)
  local params = vim.lsp.util.make_position_params()
  if change then
    change(params)
  end
  local answers = vim.lsp.buf_request_sync(0, method, params, 30000)
  for _, answer in pairs(answers or {}) do
    return answer.result
  end
end

local function actions()
  local params = vim.lsp.util.make_range_params()
  params.context = { diagnostics = {} }
  for _, answer in pairs(vim.lsp.buf_request_sync(0, "textDocument/codeAction", params, 30000)) do
    return answer.result
  end
end

local function run()
  package.path = vim.env.SHARDC_SNIPPET .. "/?.lua;" .. package.path
  require("shardc").setup({ cmd = { vim.env.SHARDC_BIN, "lsp", "--stdio" } })
  vim.cmd("filetype on")
  vim.cmd("edit rules.yaml")
  if vim.bo.filetype ~= "yaml" then
    vim.bo.filetype = "yaml"
  end
  wait("a client", function()
    return #vim.lsp.buf_get_clients(0) > 0
  end)
  local client
  for _, one in pairs(vim.lsp.buf_get_clients(0)) do
    client = one
  end
  wait("its answer", function()
    return client.server_capabilities and client.server_capabilities.hoverProvider
  end)

  -- Changes are sent at once.
  step("debounce", client.config.flags.debounce_text_changes)

  -- A mistake is typed.
  cursor_at("VOCAB")
  vim.cmd("normal! ciwVOCBA")
  wait("a finding", function()
    return #codes() > 0
  end)
  step("typed", codes())
  local one = vim.diagnostic.get(0)[1]
  step("place", vim.api.nvim_buf_get_text(0, one.lnum, one.col, one.end_lnum, one.end_col, {}))

  -- And mended by its action.
  cursor_at("VOCBA")
  local action = actions()[1]
  step("action", action.title)
  vim.lsp.util.apply_workspace_edit(action.edit, client.offset_encoding)
  wait("no finding", function()
    return #codes() == 0
  end)
  step("mended", vim.api.nvim_buf_get_lines(0, 0, -1, true))

  cursor_at("mlp\\/up")
  step("hover", ask("textDocument/hover").contents.value)
  cursor_at("spec: COLUMN")
  vim.cmd("normal! W")
  step("definition", ask("textDocument/definition")[1].range.start.line)

  -- A line that is no YAML yet, and what completion offers in it.
  local before = vim.api.nvim_buf_get_lines(0, 0, -1, true)
  vim.api.nvim_buf_set_lines(0, -1, -1, true, { "  - match: 'x$'", "    spec: [WI" })
  vim.api.nvim_win_set_cursor(0, { vim.fn.line("$"), 0 })
  local labels = {}
  local items = ask("textDocument/completion", function(params)
    params.position.character = #vim.fn.getline("$")
  end).items
  for _, item in ipairs(items) do
    table.insert(labels, item.label)
  end
  step("completion", labels)
  vim.api.nvim_buf_set_lines(0, 0, -1, true, before)
  local names = {}
  for _, symbol in ipairs(ask("textDocument/documentSymbol")) do
    table.insert(names, symbol.name)
  end
  step("symbols", names)

  -- Many edits, then the same text again.
  local text = vim.api.nvim_buf_get_lines(0, 0, -1, true)
  math.randomseed(1)
  for _ = 1, 200 do
    local line = math.random(0, vim.api.nvim_buf_line_count(0) - 1)
    local pieces = { "", "[", "'", "\240\159\152\128", "- match: 'a'", "spec: [TP" }
    vim.api.nvim_buf_set_lines(0, line, line + math.random(0, 1), true, { pieces[math.random(#pieces)] })
  end
  vim.api.nvim_buf_set_lines(0, 0, -1, true, text)
  step("hover_again", (function()
    cursor_at("mlp\\/up")
    return ask("textDocument/hover").contents.value
  end)())
  wait("no finding", function()
    return #codes() == 0
  end)
  vim.lsp.stop_client(client.id)
  wait("the end", function()
    return client.is_stopped()
  end)
  step("ended", true)
end

local good, why = pcall(run)
if not good then
  out.error = why
end
finish()
