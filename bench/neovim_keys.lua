-- Measures from a change of one character in a buffer of Neovim until its
-- diagnostics arrive: neovim_keys.py starts it and reads what it writes.
local out = { milliseconds = {} }

local function run()
  package.path = vim.env.SHARDC_SNIPPET .. "/?.lua;" .. package.path
  local arrived = {}
  local handle = vim.lsp.handlers["textDocument/publishDiagnostics"]
  vim.lsp.handlers["textDocument/publishDiagnostics"] = function(err, result, ...)
    handle(err, result, ...)
    if result and result.version then
      arrived[result.version] = vim.loop.hrtime()
    end
  end
  require("shardc").setup({ cmd = { vim.env.SHARDC_BIN, "lsp", "--stdio", "--threads", "1" } })
  vim.cmd("filetype on")
  vim.cmd("edit " .. vim.fn.fnameescape(vim.env.SHARDC_RULES))
  vim.bo.filetype = "yaml"
  local function arrives(version)
    assert(vim.wait(60000, function()
      return arrived[version] ~= nil
    end, 1))
    return arrived[version]
  end
  vim.wait(60000, function()
    return next(arrived) ~= nil
  end, 10)
  local place = vim.fn.searchpos("/kernel", "w")
  local row, column = place[1] - 1, place[2] - 1
  for i = 1, tonumber(vim.env.SHARDC_KEYS) do
    -- A person types a few characters in a second.
    vim.wait(tonumber(vim.env.SHARDC_PAUSE), function() end)
    local odd = i % 2 == 1
    local started = vim.loop.hrtime()
    vim.api.nvim_buf_set_text(0, row, column, row, odd and column or column + 1, { odd and "x" or "" })
    local ended = arrives(vim.api.nvim_buf_get_changedtick(0))
    table.insert(out.milliseconds, (ended - started) / 1e6)
  end
end

local good, why = pcall(run)
if not good then
  out.error = why
end
local file = io.open(vim.env.SHARDC_RESULT, "w")
file:write(vim.fn.json_encode(out))
file:close()
vim.cmd("qall!")
